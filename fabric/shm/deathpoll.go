package shm

import (
	"slices"

	"github.com/banyan-hpc/banyan/internal/robust"
)

// deathPoll is how a process that polls learns of deaths by itself: its watcher may have to wait for the core on which
// the process polls. PollDeaths loads the number of entries of Config.Exits and the robust word of one peer, of each in
// its turn, and handles a death that it finds as the watcher does.
//
// The price does not depend on the number of peers, and the lines that it reads stay in the cache until there is a death.
type deathPoll struct {
	nextWord int // of words
	words    []polledWord
	exits    Exits
	entries  uint64 // of exits, as read last
}

// polledWord is the robust word of a peer.
type polledWord struct {
	c          *Conn
	word       *robust.Word
	thread     robust.Seen
	falseMarks int // how often it was marked and the thread was there
}

// gone reports whether the word is marked, and truly.
func (p *polledWord) gone() bool { return p.word != nil && p.word.Marked() && p.thread.Gone() }

// maxFalseMarks bounds how often a marked word whose thread lives is asked about. The kernel marks a word some
// microseconds before it forgets the list, or more if it lets another thread run between the two.
const maxFalseMarks = 100_000

// PollDeaths looks for deaths at the price of some loads; the next Poll reports what it finds. A process that polls calls it
// now and then, where it yields between two Polls at each. It is called like Poll.
func (p *Provider) PollDeaths() { p.deaths.pollOne(p.watch) }

// pollOne looks into the record, and at the word of one peer.
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

// pollAll looks at the words of all peers.
func (d *deathPoll) pollAll(w *watcher) {
	for i := len(d.words) - 1; i >= 0; i-- {
		if d.words[i].word.Marked() {
			d.verify(w, i)
		}
	}
}

// verify asks the kernel whether the thread that held a marked word is gone, and notes the peer's end if so. The word is
// not polled any longer then, nor when it has been wrong too often.
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

// notifyPeers has the processes that this one is connected to, and that poll, look at all words at once. The first
// process that finds a death does it, so that the others need not wait for the turn of that peer's word. A sleeping process is
// not woken: it has a watcher.
func (p *Provider) notifyPeers(dead *Conn) {
	if dead.segment.header == nil || !dead.segment.head().endSpread.CompareAndSwap(0, 1) {
		return
	}
	for _, c := range p.conns {
		if c.live && c != dead {
			c.segment.head().knocks.Add(1)
		}
	}
}
