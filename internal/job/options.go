package job

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	"github.com/banyan-hpc/banyan/coll"
	"github.com/banyan-hpc/banyan/coll/choose"
	"github.com/banyan-hpc/banyan/coll/tree"
	"github.com/banyan-hpc/banyan/fabric/route"
	"github.com/banyan-hpc/banyan/fabric/shm"
	"github.com/banyan-hpc/banyan/fabric/tcp"
	"github.com/banyan-hpc/banyan/ft"
	"github.com/banyan-hpc/banyan/internal/settings"
	"github.com/banyan-hpc/banyan/p2p"
)

// Options are the choices of the application. A nil pointer and a limit of 0 leave the choice to
// the user's settings.
type Options struct {
	Unaware         bool
	Fabric          *string
	Networks        *string
	EagerLimit      int // bytes
	UnexpectedLimit int // bytes
	MemoryLimit     int // bytes
	KernelCopy      *bool
	Profile         p2p.Profile
	Async           *bool
	Detection       *DetectionTimes
	ErrorsFatal     *bool
	Design          *tree.Design
	Tree            *string
	Algorithms      *string // a table, as the files of settings.CollAlgorithms have it
	Debug           *bool
	Log             *slog.Logger // nil: no log
}

// DetectionTimes are the times of the failure detector; the zero value turns it off.
type DetectionTimes struct{ Period, Timeout time.Duration }

// The variables that choose fabrics. BANYAN_NODE is package route's.
const (
	fabricVariable   = "BANYAN_FABRIC"
	networksVariable = "BANYAN_NETWORKS"
	verboseVariable  = "BANYAN_VERBOSE"
)

// Check finds options that no user's settings make valid.
func (o *Options) Check() error {
	if o.Profile > p2p.RunThrough {
		return fmt.Errorf("%w: %v", ft.ErrArgument, o.Profile)
	}
	if _, err := o.allowed(nil); err != nil {
		return err
	}
	_, err := o.configure(settings.Defaults())
	return err
}

// config is the configuration of a rank: the options, and the user's settings for the others.
type config struct {
	Options
	limits   p2p.Limits
	memory   int64 // the limit of allocated memory, in bytes; 0: a share of the free memory
	async    bool
	detector detector
	fatal    bool
	debug    bool
	trees    coll.Choice
	segments segments
}

// segments is whether small collectives use shared memory. The zero value is for jobs whose ranks
// share none.
type segments uint8

const (
	noSegments    segments = iota
	otherSegments          // other ranks may have them, this one has not
	ownSegments
)

// configure stores the options in s, and returns the resulting configuration. The error names the
// option that is out of range.
func (o *Options) configure(s *settings.Set) (*config, error) {
	for _, c := range o.overrides() {
		if !c.given {
			continue
		}
		if err := s.Override(c.id, c.value, c.name); err != nil {
			return nil, fmt.Errorf("%w: %w", ft.ErrArgument, err)
		}
	}
	if err := s.Agree(); err != nil {
		return nil, fmt.Errorf("%w: %w", ft.ErrArgument, err)
	}
	trees, err := o.chooseTrees(s)
	if err != nil {
		return nil, err
	}
	c := &config{
		Options: *o, trees: trees, async: s.On(settings.Async), detector: detectorOf(s),
		limits:   p2p.Limits{Eager: max(s.Int(settings.Eager), 0), Unexpected: s.Int(settings.Unexpected)}, // auto: 0
		fatal:    s.Int(settings.Errors) == settings.Fatal,
		debug:    s.On(settings.Debug),
		segments: otherSegments,
	}
	if c.debug && o.Unaware {
		return nil, fmt.Errorf("%w: debug needs the fault-aware engine: leave WithAware(false) or debug out", ft.ErrArgument)
	}
	if n := s.Int(settings.MemoryLimit); n != settings.Auto {
		c.memory = int64(n)
	}
	if s.On(settings.Flat) {
		c.segments = ownSegments
	}
	return c, nil
}

// configureSimulated returns the configuration of a simulated rank: no user's settings, and no
// detector unless an option asks for one.
func (o *Options) configureSimulated() (*config, error) {
	c, err := o.configure(settings.Defaults())
	if err != nil {
		return nil, err
	}
	c.limits = p2p.Limits{Eager: o.EagerLimit, Unexpected: o.UnexpectedLimit}
	c.memory = cmp.Or(int64(o.MemoryLimit), simulatedMemory)
	c.async = o.Async != nil && *o.Async
	c.debug = o.Debug != nil && *o.Debug
	c.fatal = o.ErrorsFatal != nil && *o.ErrorsFatal
	c.segments = noSegments
	if o.Detection == nil {
		c.detector = detector{}
	}
	return c, nil
}

// override is a value that an option has given.
type override struct {
	given bool
	id    settings.ID
	value int
	name  string
}

func (o *Options) overrides() []override {
	return append(o.Detection.overrides(), []override{
		{o.EagerLimit != 0, settings.Eager, o.EagerLimit, "WithEagerLimit"},
		{o.UnexpectedLimit != 0, settings.Unexpected, o.UnexpectedLimit, "WithUnexpectedLimit"},
		{o.MemoryLimit != 0, settings.MemoryLimit, o.MemoryLimit, "WithMemoryLimit"},
		{o.KernelCopy != nil, settings.KernelCopy, number(o.KernelCopy, 0, 1), "WithKernelCopy"},
		{o.Async != nil, settings.Async, number(o.Async, 0, 1), "WithAsyncProgress"},
		{o.ErrorsFatal != nil, settings.Errors, number(o.ErrorsFatal, settings.Return, settings.Fatal), "WithErrorsFatal"},
		{o.Debug != nil, settings.Debug, number(o.Debug, 0, 1), "WithDebug"},
	}...)
}

func number(b *bool, no, yes int) int {
	if b != nil && *b {
		return yes
	}
	return no
}

func (d *DetectionTimes) overrides() []override {
	const name = "WithDetection"
	switch {
	case d == nil:
		return nil
	case *d == DetectionTimes{}:
		return []override{{true, settings.Detect, 0, name}}
	}
	return []override{
		{true, settings.Detect, 1, name},
		{true, settings.DetectPeriod, wholeMillis(d.Period), name},
		{true, settings.DetectTimeout, wholeMillis(d.Timeout), name},
	}
}

// wholeMillis is a number that no knob takes where d is not in whole milliseconds.
func wholeMillis(d time.Duration) int {
	if d%time.Millisecond != 0 {
		return math.MinInt
	}
	return int(d.Milliseconds())
}

// chooseTrees takes the trees and algorithms of collectives from the options, else from s.
func (o *Options) chooseTrees(s *settings.Set) (coll.Choice, error) {
	design := tree.Design(s.Int(settings.CollDesign))
	if o.Design != nil {
		design = *o.Design
	}
	if design > tree.Corrected {
		return coll.Choice{}, fmt.Errorf("%w: WithDesign: %v, want unaware, reroute, lookup, rebalance or corrected",
			ft.ErrArgument, design)
	}
	text := settings.Of(settings.CollTree).Format(s.Int(settings.CollTree))
	if o.Tree != nil {
		text = *o.Tree
	}
	choice, err := WithTree(coll.Choice{Design: design}, text)
	if err != nil {
		return coll.Choice{}, fmt.Errorf("WithTree: %w", err)
	}
	if o.Algorithms != nil {
		return WithAlgorithms(choice, "WithAlgorithms", *o.Algorithms)
	}
	choice.Table, err = s.Algorithms()
	return choice, err
}

// sumOfAlgorithms is that of the table of algorithms, 0 where there is none.
func (c *config) sumOfAlgorithms() uint64 {
	if c.trees.Table == nil {
		return 0
	}
	return c.trees.Table.Sum()
}

// WithAlgorithms gives a choice a table of algorithms. The name is for errors.
func WithAlgorithms(choice coll.Choice, name, table string) (coll.Choice, error) {
	t, err := choose.Parse(name, table)
	if err != nil {
		return choice, fmt.Errorf("%w: %w", ft.ErrArgument, err)
	}
	choice.Table = t
	return choice, nil
}

// AutoTree has each collective choose its tree.
const AutoTree = "auto"

// WithTree gives a choice another tree, by the word of a user.
func WithTree(choice coll.Choice, text string) (coll.Choice, error) {
	if choice.Auto, choice.Shape = text == AutoTree, tree.Binomial; choice.Auto {
		return choice, nil
	}
	var err error
	if choice.Shape, err = tree.ParseShape(text); err != nil {
		return choice, fmt.Errorf("%w: %w, or auto", ft.ErrArgument, err)
	}
	return choice, nil
}

// allowed is the set of fabrics by the option, else by the environment, which may be nil.
func (o *Options) allowed(getenv func(string) string) (route.Set, error) {
	if o.Fabric != nil {
		s, err := route.ParseSet(*o.Fabric)
		if err != nil {
			err = fmt.Errorf("%w: WithFabrics: %w (the simulator is started by Simulate)", ft.ErrArgument, err)
		}
		return s, err
	}
	if getenv == nil {
		return route.All, nil
	}
	text := getenv(fabricVariable)
	if text == "" {
		return route.All, nil
	}
	s, err := route.ParseSet(text)
	if err != nil {
		err = fmt.Errorf("%s=%s: %w", fabricVariable, text, err)
	}
	return s, err
}

// listed are the networks by the option, else by the environment; nil: all.
func (o *Options) listed(getenv func(string) string) []string {
	text := getenv(networksVariable)
	if o.Networks != nil {
		text = *o.Networks
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// verbose prints the log if the environment wants it and the program does not take it.
func (o *Options) verbose(getenv func(string) string) {
	if v := getenv(verboseVariable); o.Log == nil && v != "" && v != "0" {
		o.Log = slog.New(lineHandler{to: os.Stderr})
	}
}

// logSettings logs settings that differ from the defaults, and files that were not used.
func (o *Options) logSettings(s *settings.Set) {
	if o.Log == nil {
		return
	}
	for _, src := range s.Sources {
		if src.Foreign {
			o.Log.Info("settings: " + src.Path + " " + src.State + ": run ftbench tune")
		}
	}
	for i, k := range settings.Knobs() {
		if id := settings.ID(i); s.Changed(id) {
			o.Log.Info("settings: "+k.Name+" = "+s.Format(id), "origin", s.Origin(id))
		}
	}
}

// shmConfig is the configuration of shared memory by s.
func shmConfig(s *settings.Set) shm.Config {
	return shm.Config{
		Lines: s.Int(settings.RingLines), BulkBytes: s.Int(settings.RingBytes),
		EagerNear: s.Int(settings.EagerNear), EagerFar: s.Int(settings.EagerFar), EagerReply: s.Int(settings.EagerReply),
		NoGet: !s.On(settings.KernelCopy),
	}
}

// tcpConfig is the configuration of sockets by s.
func tcpConfig(s *settings.Set) tcp.Config {
	return tcp.Config{
		Eager: s.Int(settings.TCPEager), Reply: s.Int(settings.TCPReply), Outbox: s.Int(settings.TCPOutbox),
		Heal: time.Duration(s.Int(settings.TCPHeal)) * time.Millisecond,
	}
}

// unlessAuto is a count for the host, nil where the host chooses.
func unlessAuto(v int) *int {
	if v == settings.Auto {
		return nil
	}
	return &v
}
