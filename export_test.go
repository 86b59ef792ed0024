package banyan

// Deafen has a rank that is in a fence ask nothing of its launcher, though that spares the dead: so
// it was until requests were answered in a fence.
func (l *SimulatedLauncher) Deafen() { l.deaf = true }
