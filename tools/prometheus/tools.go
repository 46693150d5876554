//go:build tools

// Package prometheus only pins promtool, with which alert rules are checked and tested.
package prometheus

import (
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
