//go:build tools

// Package etcd only pins the programs that `cargo xtask upstream` builds and runs.
package etcd

import (
	_ "go.etcd.io/etcd/etcdctl/v3"
	_ "go.etcd.io/etcd/server/v3"
)
