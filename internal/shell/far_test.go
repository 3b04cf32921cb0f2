package shell_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestRemote_CommandsAreGuessedAndNotFullySeen(t *testing.T) {
	for line, want := range map[string]string{ // the guess, its words apart by blanks
		"ssh host rm x":                                                  "rm x",
		"ssh -p 22 -oX=y user@host rm x":                                 "rm x",
		"ssh host -p 22 -t 'ls; rm x'":                                   "rm x",
		"/usr/bin/ssh -- host rm x":                                      "rm x",
		"ssh -o ProxyCommand='rm x' host":                                "rm x",
		"ssh -oproxycommand=\"sh -c 'rm x'\" h":                          "rm x",
		"ssh host <<'EOF'\nrm x\nEOF":                                    "rm x",
		"ssh host bash <<'EOF'\nrm x\nEOF":                               "rm x",
		"ssh a ssh b rm x":                                               "rm x",
		"sshpass -e ssh host rm x":                                       "rm x",
		"mosh host -- rm x":                                              "rm x",
		"adb -s dev shell rm x":                                          "rm x",
		"sudo docker exec c rm x":                                        "rm x",
		"docker exec -it -u root c rm x":                                 "rm x",
		"docker exec -i c sh <<'EOF'\nrm x\nEOF":                         "rm x",
		"docker -H tcp://h container exec c rm x":                        "rm x",
		"docker compose -f f run --rm -e A=b svc rm x":                   "rm x",
		"docker run -v /:/host --name n --rm -ti alpine rm x":            "rm x",
		"docker run --privileged --network=host alpine sh -c 'ls; rm x'": "rm x",
		"docker run --entrypoint rm alpine x":                            "rm x",
		"podman run --entrypoint=rm alpine x":                            "rm x",
		"docker run alpine":                                              "",
		"docker exec c \"$x\"":                                           "$x",
		"kubectl exec pod -- rm x":                                       "rm x",
		"kubectl -n ns exec pod -c c -it -- rm x":                        "rm x",
		"kubectl exec deploy/d rm x":                                     "rm x",
		"kubectl run n --image i --command -- rm x":                      "rm x",
		"k3s kubectl exec pod -- rm x":                                   "rm x",
		"oc rsh pod rm x":                                                "rm x",
		"lxc exec c -- rm x":                                             "rm x",
		"machinectl shell c /bin/rm x":                                   "/bin/rm x",
		"limactl shell vm rm x":                                          "rm x",
		"toolbox run -c box rm x":                                        "rm x",
		"distrobox enter -n box -- rm x":                                 "rm x",

		"git submodule foreach 'ls; rm x'":                          "rm x",
		"git submodule --quiet foreach --recursive rm x":            "rm x",
		"git -C /r submodule foreach git push":                      "git push",
		"git bisect run rm x":                                       "rm x",
		"git bisect run sh -c 'rm x'":                               "rm x",
		"git rebase -x 'rm x' main":                                 "rm x",
		"git rebase -ix'rm x' main":                                 "rm x",
		"git rebase -i --exec='ls' --ex 'rm x' main":                "rm x",
		"git filter-branch --prune-empty --tree-filter 'rm x' HEAD": "rm x",
		"git filter-branch --index-filter='rm x'":                   "rm x",
		"git difftool --extcmd 'rm x'":                              "rm x",
		"git --no-pager fetch --upload-pack 'rm x' origin":          "rm x",
		"git clone -u 'rm x' a":                                     "rm x",
		"git push --receive-pack='rm x'":                            "rm x",
		"git grep -O'rm x' a":                                       "rm x",
		"git grep -nO a":                                            "",
	} {
		subs, unparsed := shell.Parse(line)
		if unparsed == "" {
			t.Errorf("%q is taken for fully seen:\n%s", line, show(subs))
		}
		if want != "" && !slices.ContainsFunc(subs, func(sub *permissionv1.SubCommand) bool {
			return strings.Join(sub.GetArgv(), " ") == want && (len(sub.GetWrappers()) > 0)
		}) {
			t.Errorf("%q: %q is not guessed:\n%s", line, want, show(subs))
		}
		if !strings.Contains(show(subs), strings.ReplaceAll(strings.Fields(line)[0], "sudo", "docker")) {
			t.Errorf("%q is not among its own commands:\n%s", line, show(subs))
		}
	}
}

func TestRemote_ProgramsWithoutRemoteCommand(t *testing.T) {
	for _, line := range []string{
		"docker ps -a", "docker build -t x .", "docker image ls", "docker network create n", "docker compose up", "docker logs c exec",
		"kubectl get pods", "kubectl -n ns logs run", "kubectl", "lxc list", "adb devices", "docker -v",
		"git submodule update --init", "git submodule add foreach", "git bisect good", "git bisect log run", "git rebase main",
		"git rebase -i main", "git rebase -sx main", "git fetch origin", "git clone a b", "git push origin x", "git grep -n TODO",
		"git grep -eTODO", "git archive HEAD", "git log -x", "git rebase -- -x",
	} {
		subs, unparsed := shell.Parse(line)
		if unparsed != "" || len(subs) != 1 || strings.Join(subs[0].GetArgv(), " ") != line {
			t.Errorf("%q: unparsed %q:\n%s", line, unparsed, show(subs))
		}
	}
}

func TestXargs_MaySetPATH(t *testing.T) {
	subs, _ := shell.Parse("xargs --process-slot-var=PATH -I% ls x")
	if len(subs) != 1 || len(subs[0].GetAssignments()) != 1 || subs[0].GetAssignments()[0] != "PATH=0" {
		t.Errorf("got %v", subs)
	}
}
