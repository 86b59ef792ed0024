package shm

import (
	"slices"

	"github.com/banyan-hpc/banyan/internal/robust"
)

// deathPoll detects deaths in a process that polls, whose watcher may have to wait for the core.
// PollDeaths loads the number of entries of Config.Exits and the robust word of one peer, in turn,
// and handles a death as the watcher does.
//
// The cost does not depend on the number of peers, and the lines that it reads stay in the cache
// until there is a death.
type deathPoll struct {
	nextWord int // index in words
	words    []polledWord
	exits    Exits
	entries  uint64 // of exits, as last read
}

// polledWord is the robust word of a peer.
type polledWord struct {
	c          *Conn
	word       *robust.Word
	thread     robust.Seen
	falseMarks int // how often it was marked while the thread lived
}

// gone reports whether the word is marked and its thread is gone.
func (p *polledWord) gone() bool { return p.word != nil && p.word.Marked() && p.thread.Gone() }

// maxFalseMarks bounds the checks of a marked word whose thread lives. The kernel marks a word some
// microseconds before it drops the list, or more if another thread runs in between.
const maxFalseMarks = 100_000

// PollDeaths checks for deaths at the cost of some loads; the next Poll reports them. A process
// that polls calls it now and then, and between every two Polls where it yields. It is called like
// Poll.
func (p *Provider) PollDeaths() { p.deaths.pollOne(p.watch) }

// CheckDeaths looks at all peers, as after a death, and so has the next Poll. The code for that is in the cache then
// for a while. It is called like Poll.
func (p *Provider) CheckDeaths() {
	if p.deaths.exits != nil {
		p.watch.checkExits()
	}
	p.deaths.pollAll(p.watch)
	if w := p.deaths.words; len(w) > 0 {
		w[0].thread.Gone() // so that the kernel's code for it is in the cache
	}
	p.watch.reapPending.Store(true)
}

// SetPolling says whether this process polls all the time: then the mark of a death wakes no thread of it, PollDeaths
// finds it, and Poll does not ask how the peer has ended before it reports the end: see ExitCause. It is called like Poll.
func (p *Provider) SetPolling(on bool) {
	p.polling = on
	if p.watch.words != nil && p.own.procs <= maxWords { // else others watch the same words
		p.watch.words.Quiet(on)
	}
	p.watch.watchExits(!on)
	if !on { // sooner than the threads that wait at words
		p.deaths.pollAll(p.watch)
	}
}

// pollOne reads the record, and the word of one peer.
func (d *deathPoll) pollOne(w *watcher) {
	if d.exits != nil {
		if n := d.exits.Entries(); n != d.entries {
			d.entries = n
			w.checkExits()
		}
	}
	if d.nextWord >= len(d.words) {
		d.nextWord = 0
		if len(d.words) == 0 {
			return
		}
	}
	i := d.nextWord
	d.nextWord++
	if d.words[i].word.Marked() {
		d.verify(w, i)
	}
}

// pollAll reads the words of all peers.
func (d *deathPoll) pollAll(w *watcher) {
	for i := len(d.words) - 1; i >= 0; i-- {
		if d.words[i].word.Marked() {
			d.verify(w, i)
		}
	}
}

// verify asks the kernel whether the thread that held a marked word is gone, and notes the peer's
// end if so. The word is not polled any longer then, nor when it was marked falsely too often.
func (d *deathPoll) verify(w *watcher, i int) {
	p := &d.words[i]
	switch gone := p.thread.Gone(); {
	case gone:
		w.peerEnded(p.c.watchKey, byPoll)
	case p.falseMarks < maxFalseMarks:
		p.falseMarks++
		return
	}
	d.words = slices.Delete(d.words, i, i+1)
}

// forget ends the polling of a peer's word, which may be unmapped then.
func (d *deathPoll) forget(c *Conn) {
	d.words = slices.DeleteFunc(d.words, func(p polledWord) bool { return p.c == c })
}

// notifyPeers makes the connected processes that poll check all words at once. The first process
// that finds a death does it, so that the others need not wait until it is the turn of that peer's
// word. It does not wake sleeping processes: they have watchers.
func (p *Provider) notifyPeers(dead *Conn) {
	if dead.segment.header == nil || !dead.segment.head().endSpread.CompareAndSwap(0, 1) {
		return
	}
	for _, c := range p.conns {
		if c.live && c != dead {
			c.segment.head().deaths.Add(1)
		}
	}
}
