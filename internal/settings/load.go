package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/banyan-hpc/banyan/ft/detect"
)

const (
	// FileVariable names the file that is read instead of the user's and the
	// machine's.
	FileVariable = prefix + "TUNING"
	// NoFile is its value where no file is to be read.
	NoFile     = "none"
	systemFile = "/etc/banyan/tune.conf"
	// maxFile bounds the part of a file that is read, in bytes.
	maxFile = 1 << 20
)

// Surroundings are where values are looked for.
type Surroundings struct {
	// Environ has NAME=value strings, as os.Environ gives them.
	Environ []string
	// User and System are the files' paths; "" where there is none.
	User, System string
	// Machine is [Machine], called if a file has parts; nil returns "".
	Machine func() string
}

// Here returns the surroundings of this process.
func Here() Surroundings {
	return Surroundings{Environ: os.Environ(), User: UserFile(), System: systemFile, Machine: Machine}
}

// UserFile is where the user's settings lie, "" if there is no home directory.
func UserFile() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "banyan", "tune.conf")
}

func (in *Surroundings) machine() string {
	if in.Machine == nil {
		return ""
	}
	return in.Machine()
}

// Source is a file that was looked for.
type Source struct {
	Path string `json:"path"`
	// State describes the file's state to users.
	State string `json:"state"`
	// Foreign: it holds measurements, and none of this machine.
	Foreign bool `json:"foreign"`
	// Denied: this user may not read it, as in a home directory of another one. It is left aside.
	Denied bool `json:"denied"`
}

// Set is a value for each knob.
type Set struct {
	values [numKnobs]struct {
		number int
		file   string // of a Path; "": none
		origin string
	}
	// Sources are the files that were looked for, the strongest first.
	Sources []Source
}

// fromDefault is the origin of a value that is not set.
const fromDefault = "default"

// Defaults returns the defaults of the layers below.
func Defaults() *Set {
	s := new(Set)
	for i := range table {
		s.values[i].number, s.values[i].origin = table[i].Default, fromDefault
	}
	return s
}

// Int is a knob's value; [Auto] where it is left to the library.
func (s *Set) Int(id ID) int { return s.values[id].number }

// File is the name of a file, "" for none.
func (s *Set) File(id ID) string { return s.values[id].file }

// Format formats a knob's value as in a file of settings.
func (s *Set) Format(id ID) string {
	if file := s.File(id); file != "" {
		return file
	}
	return Of(id).Format(s.Int(id))
}

// On is the value of a switch.
func (s *Set) On(id ID) bool { return s.values[id].number == onOff }

// Origin returns the source of a knob's value: default, FILE:LINE, the name of a variable, or the
// name that was passed to Override.
func (s *Set) Origin(id ID) string { return s.values[id].origin }

// Changed reports whether the knob is set.
func (s *Set) Changed(id ID) bool { return s.values[id].origin != fromDefault }

// Override sets a value that is stronger than those before. The error describes the possible
// values.
func (s *Set) Override(id ID, v int, origin string) error {
	if err := Of(id).Check(v); err != nil {
		return fmt.Errorf("%s: %w", origin, err)
	}
	s.put(id, v, origin)
	return nil
}

func (s *Set) put(id ID, v int, origin string) { s.putFile(id, v, "", origin) }

// putFile is put with the name of a file, which none is not.
func (s *Set) putFile(id ID, v int, file, origin string) {
	if Of(id).Unit != Path || strings.EqualFold(file, NoFile) {
		file = ""
	}
	s.values[id].number, s.values[id].file, s.values[id].origin = v, file, origin
}

// Load finds the values. Errors name the file and line, or the variable, and the possible values.
func Load(in Surroundings) (*Set, error) {
	s := Defaults()
	vars := variables(in.Environ)
	paths, named := []string{in.System, in.User}, false
	if path, ok := vars[FileVariable]; ok && path != "" {
		paths, named = []string{path}, true
	}
	var errs []error
	for _, path := range paths {
		if path == "" || named && path == NoFile {
			continue
		}
		errs = append(errs, s.read(path, named, in.machine))
	}
	errs = append(errs, s.environment(in.Environ))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := s.Agree(); err != nil {
		return nil, err
	}
	return s, nil
}

// Agree reports whether the values are consistent.
func (s *Set) Agree() error {
	period, timeout := s.Int(DetectPeriod), s.Int(DetectTimeout)
	if s.On(Detect) && timeout < detect.MinPeriods*period {
		say := func(id ID) string {
			return fmt.Sprintf("%s = %s (%s)", Of(id).Name, Of(id).Format(s.Int(id)), s.Origin(id))
		}
		return fmt.Errorf("%s is less than %d times %s: raise the one or lower the other", say(DetectTimeout), detect.MinPeriods, say(DetectPeriod))
	}
	return nil
}

// read takes the values of one file.
func (s *Set) read(path string, named bool, machine func() string) error {
	text, err := readFile(path)
	absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	switch {
	case absent && !named:
		s.found(Source{Path: path, State: "absent"})
		return nil
	case errors.Is(err, fs.ErrPermission) && !named:
		s.found(Source{Path: path, State: "not to be read by this user, and left aside", Denied: true})
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s=%s: %w: let user %d read it, or do without files with %s=%s", FileVariable, path, err, os.Geteuid(), FileVariable, NoFile)
	case absent:
		return fmt.Errorf("%s=%s: there is no such file: ftbench tune --out %s makes it, %s=%s does without", FileVariable, path, path, FileVariable, NoFile)
	case err != nil:
		return fmt.Errorf("settings: %w: %s=%s does without files", err, FileVariable, NoFile)
	}
	f, err := Parse(path, text)
	if err != nil {
		return err
	}
	here := ""
	if len(f.heads) > 0 {
		here = machine()
	}
	for _, e := range f.on(here) {
		s.putFile(e.id, e.value, e.file, fmt.Sprintf("%s:%d", path, e.line))
	}
	if others := f.strange(here); others != nil {
		state := fmt.Sprintf("has nothing measured on this machine, [%s]; its parts are for [%s]", here, strings.Join(others, "], ["))
		s.found(Source{Path: path, State: state, Foreign: true})
		return nil
	}
	s.found(Source{Path: path, State: "read"})
	return nil
}

// found puts a file before weaker ones.
func (s *Set) found(src Source) { s.Sources = append([]Source{src}, s.Sources...) }

// readFile reads a file that is not too long to be one of settings.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes: that is no file of settings", path, maxFile)
	}
	return text, err
}

// variables makes a map of an environment; the last of two counts, as for
// os/exec.
func variables(environ []string) map[string]string {
	vars := make(map[string]string)
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok && strings.HasPrefix(name, prefix) {
			vars[name] = value
		}
	}
	return vars
}

// others are the variables of users that set no knob.
var others = []string{
	FileVariable, prefix + "FABRIC", prefix + "NETWORKS", prefix + "VERBS_DEVICE", prefix + "NODE", prefix + "VERBOSE",
	prefix + "EXITS", prefix + "INIT_TIMEOUT", prefix + "SECRET_FILE", prefix + "RSH",
}

// families begin the names of variables that can only be settings.
var families = []string{prefix + "SHM_", prefix + "WAIT_", prefix + "UNEXPECTED", prefix + "DETECT"}

// environment takes the values of the variables. An empty one is as good as
// none. A name that begins like a knob's, or is misspelled, is an error.
func (s *Set) environment(environ []string) error {
	vars := variables(environ)
	var errs []error
	for i := range table {
		name := table[i].Variable()
		text := vars[name]
		delete(vars, name)
		if text == "" {
			continue
		}
		v, err := table[i].Parse(strings.TrimSpace(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s=%s: %w", name, text, err))
			continue
		}
		s.putFile(ID(i), v, strings.TrimSpace(text), name)
	}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if _, left := vars[name]; !left || slices.Contains(others, name) {
			continue
		}
		if near := misspelled(name); near != "" {
			errs = append(errs, fmt.Errorf("%s: there is no such setting; is %s meant? docs/tuning.md has the list", name, near))
		} else if hasFamily(name) {
			errs = append(errs, fmt.Errorf("%s: %w", name, unknown(name, (*Knob).Variable)))
		}
	}
	return errors.Join(errs...)
}

// misspelled returns the variable that a name differs from in few letters, one in five at most; "" if there is none.
func misspelled(name string) string {
	known := slices.Clone(others)
	for i := range table {
		known = append(known, table[i].Variable())
	}
	for _, k := range known {
		if len(name) <= maxName && distance(name, k) <= (len(k)-len(prefix))/5 {
			return k
		}
	}
	return ""
}

func hasFamily(name string) bool {
	for _, f := range families {
		if strings.HasPrefix(name, f) {
			return true
		}
	}
	return false
}
