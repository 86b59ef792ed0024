package tcp

// LastError is the error of the last attempt to connect; nil without one.
func (c *Conn) LastError() error { return c.lastError }

// Doubts reports whether bytes on some connection may have no acknowledgement.
func (p *Provider) Doubts() bool { return len(p.doubted) > 0 }
