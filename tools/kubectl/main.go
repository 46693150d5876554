// Command kubectl is kubectl two minor versions before the reference server's: what a person has
// who does not upgrade with the cluster. The other kubectl is built with the server, in
// tools/upstream.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	// What upstream's own main links in, too.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

func main() {
	// As upstream's main ends: a command's own exit code, not always 1.
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
	os.Exit(0)
}
