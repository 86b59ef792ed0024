package route

import "fmt"

// Verdict is the decision whether a fabric joins two processes, and the reason.
type Verdict struct {
	Fabric Fabric
	OK     bool
	Why    string
}

// String returns "shm: same boot, …" or "not shm: …".
func (v Verdict) String() string {
	if v.OK {
		return fmt.Sprintf("%v: %s", v.Fabric, v.Why)
	}
	return fmt.Sprintf("not %v: %s", v.Fabric, v.Why)
}

// Choose returns a verdict for each fabric, in the order of preference, but for RDMA only if one of the two has an
// adapter. Both processes get the same verdicts, in the same words.
func Choose(mine, theirs *Card) []Verdict {
	verdicts := make([]Verdict, 0, numFabrics)
	for f := range numFabrics {
		if f == Verbs && mine.Adapter == "" && theirs.Adapter == "" {
			continue
		}
		why, ok := judge(f, mine, theirs)
		verdicts = append(verdicts, Verdict{f, ok, why})
	}
	return verdicts
}

// knobs are the settings that restrict the fabrics.
const knobs = "BANYAN_FABRIC, --fabric, WithFabrics"

func judge(f Fabric, mine, theirs *Card) (why string, ok bool) {
	if why := max(mine.NoShm, theirs.NoShm); f == Shm && why != "" {
		return "one of the two cannot: " + why, false
	}
	if f == Verbs && (mine.Adapter == "" || theirs.Adapter == "") {
		return "one of the two has no RDMA adapter", false
	}
	switch in, too := mine.Allowed.Has(f), theirs.Allowed.Has(f); {
	case in && too:
	case in || too:
		only := mine.Allowed
		if in {
			only = theirs.Allowed
		}
		return fmt.Sprintf("one of the two may use %v only (%s)", only, knobs), false
	default:
		return fmt.Sprintf("neither may use it (%s)", knobs), false
	}
	a, b := &mine.Node, &theirs.Node
	switch f {
	case Shm:
		if why := a.apart(b); why != "" {
			return why, false
		}
		return "one boot, pid namespace and user", true
	case Verbs:
		if a.Boot == b.Boot && a.Net == b.Net && mine.Allowed.Has(Unix) && theirs.Allowed.Has(Unix) {
			return "one machine: Unix-domain sockets are shorter", false
		}
		return "both have an RDMA adapter", true
	case Unix:
		switch {
		case a.Boot != b.Boot:
			return "different machines", false
		case a.Net != b.Net:
			return "network namespaces differ " + both(a.Net, b.Net), false
		}
		return "one boot and network namespace", true
	default:
		return "what is left", true
	}
}
