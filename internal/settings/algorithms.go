package settings

import (
	"fmt"

	"github.com/banyan-hpc/banyan/coll/choose"
)

// Algorithms parses the table of CollAlgorithms; nil: there is none. The error names the setting, the line of the
// file and the possible values.
func (s *Set) Algorithms() (*choose.Table, error) {
	path := s.File(CollAlgorithms)
	if path == "" {
		return nil, nil
	}
	from := fmt.Sprintf("%s = %s (%s)", Of(CollAlgorithms).Name, path, s.Origin(CollAlgorithms))
	text, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: ftbench tune coll --out %s makes it, %s=%s does without", from, err, path,
			Of(CollAlgorithms).Variable(), NoFile)
	}
	t, err := choose.Parse(path, string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return t, nil
}
