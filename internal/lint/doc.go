// Package lint is empty: its tests are the house rules, checked by go test
// like everything else.
//
// The rules are in four tables, each with its reasons: the floors of
// the packages and the imports that are forbidden (house_test.go), the tidiness
// of the sources (tidy_test.go), the ledger docs/status.md (ledger_test.go) and the fuzz
// targets of decoders in docs/security.md (decoders_test.go).
// A rule is a function from a parsed tree to findings. Every rule is itself
// tested with a small source that breaks it and one that does not
// (samples_test.go), so a rule that finds nothing is noticed. Exceptions from a
// rule are listed with their reasons in exceptions_test.go; an unused exception
// is a finding too.
//
// It runs no other linters: go vet, gofmt and staticcheck are run
// by make test.
//
// Floor 0. It imports nothing of Banyan's.
package lint
