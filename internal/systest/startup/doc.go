// Package startup tests how jobs start and end: launchers, settings, deaths during Init and
// Finalize, and ranks that end without Finalize. Floor 8.
package startup
