//go:build tools

// Package helm only pins the program that `cargo xtask clients` runs.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
