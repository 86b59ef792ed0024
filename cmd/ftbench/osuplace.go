package main

import "github.com/banyan-hpc/banyan/bench/osu"

// rootOption is for collectives with a root, placeOption for those that have a form in place.
type (
	rootOption struct {
		Root string `short:"k" name:"root-rank" placeholder:"fixed:RANK" help:"The rank that has the data or gets the result; rotate: another one in each call. Default: fixed:0."`
	}
	placeOption struct {
		InPlace bool `short:"l" name:"in-place" help:"A rank gives its data where its result lies, as with MPI_IN_PLACE."`
	}
)

func (r rootOption) root(o *osu.Options) (err error) {
	if r.Root == "" {
		return nil
	}
	if o.Root, err = osu.ParseRoot(r.Root); err != nil {
		return usagef("-k: %v", err)
	}
	return nil
}

func (p placeOption) place(o *osu.Options) error {
	o.InPlace = p.InPlace
	return nil
}

type (
	osuPlaceCmd struct {
		osuCollCmd
		placeOption
	}
	osuRootCmd struct {
		osuCollCmd
		placeOption
		rootOption
	}
	osuOverlapPlaceCmd struct {
		osuOverlapCmd
		placeOption
	}
	osuOverlapRootCmd struct {
		osuOverlapCmd
		placeOption
		rootOption
	}
)

// Run measures.
func (c *osuPlaceCmd) Run(to *call) error { return c.collective(to, c.place) }

// Run measures.
func (c *osuRootCmd) Run(to *call) error { return c.collective(to, c.place, c.root) }

// Run measures.
func (c *osuOverlapPlaceCmd) Run(to *call) error { return c.overlap(to, c.place) }

// Run measures.
func (c *osuOverlapRootCmd) Run(to *call) error { return c.overlap(to, c.place, c.root) }
