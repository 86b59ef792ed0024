// Package detect decides who has died: a state machine for heartbeats,
// suspicion, the propagation of deaths and the rule for partitions, one for each
// process. It has no goroutine, clock or I/O: a driver feeds it and does what it
// asks.
//
//	m := detect.New(cfg, host.Now())
//	for each input:
//		m.Tick(now) // at m.Due(), or m.Heard, m.Died, m.Departed, m.Expelled
//		for a, ok := m.Next(); ok; a, ok = m.Next() {
//			switch a.Kind {
//			case detect.Send:   // to a.To, class detect; dropped if there is no credit
//			case detect.Report: // engine.Report(a.Peer, a.Cause), which calls m.Died
//			case detect.Die:    // end the process with a.Err
//			}
//		}
//
// Floor 1, above fabric, of which it uses the unit of time, and below everything
// that does I/O.
package detect
