// Package repairs tests revoke, agree, shrink and validate on whole ranks, with deaths before and
// during each of them. Floor 8.
package repairs
