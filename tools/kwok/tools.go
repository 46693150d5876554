//go:build tools

// Package kwok only pins the program that plays the nodes in `cargo xtask clients`.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
