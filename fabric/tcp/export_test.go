package tcp

// LastError is the error of the last attempt to connect; nil without one.
func (c *Conn) LastError() error { return c.lastError }
