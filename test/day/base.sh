# The start state of every step, made in an empty folder: a home, a workspace that is a git repository with a project of several
# languages, and the bare repositories that it was cloned from and that it may have as a submodule.
mkdir -p home/tmp home/run home/.cargo home/.config/go/telemetry/local home/.config/acphost home/.local/state ws
chmod 700 home/run
touch home/.config/go/telemetry/local/upload.token # as after the first command of the day
printf 'GOPROXY=off\nGOFLAGS=-mod=mod\nGOTOOLCHAIN=local\nCGO_ENABLED=0\n' >home/.config/go/env
printf 'audit=false\nfund=false\nupdate-notifier=false\n' >home/.npmrc
printf '[build]\nincremental = false\n' >home/.cargo/config.toml # its folders have random names
cat >home/.gitconfig <<'END'
[user]
	name = Dev
	email = dev@example.com
[init]
	defaultBranch = main
[protocol "file"]
	allow = always
[advice]
	detachedHead = false
END

git init -q lib && echo 'shared text' >lib/shared.txt
git -C lib add . && git -C lib commit -qm 'Share a text'
git clone -q --bare lib lib.git && rm -rf lib
git -C lib.git config uploadpack.allowFilter true

cd ws
git init -q .
mkdir -p lib pkg/greet py src testdata vendored
printf 'module example.com/app\n\ngo 1.21\n\nrequire example.com/lib v0.0.0\n\nreplace example.com/lib => ./lib\n' >go.mod
printf 'module example.com/lib\n\ngo 1.21\n' >lib/go.mod
printf 'package lib\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n' >lib/lib.go
cat >main.go <<'END'
package main

import (
	"fmt"

	"example.com/lib"
)

// TODO: read the numbers.
func main() { fmt.Println(lib.Add(1, 2)) }
END
printf 'package main\n\nimport "testing"\n\nfunc TestMain_Runs(t *testing.T) { main() }\n' >main_test.go

printf '{"name": "greet", "version": "1.0.0", "main": "index.js", "bin": {"greet": "cli.js"}}\n' >pkg/greet/package.json
printf 'module.exports = (name) => `Hello, ${name}`;\n' >pkg/greet/index.js
printf '#!/usr/bin/env node\nconsole.log(require("./index.js")("you"));\n' >pkg/greet/cli.js
chmod +x pkg/greet/cli.js
cat >package.json <<'END'
{
  "name": "app", "version": "1.0.0", "private": true,
  "scripts": {"test": "node --test src", "build": "node build.js"},
  "dependencies": {"greet": "file:./pkg/greet", "plain": "file:./vendored/plain-1.0.0.tgz"}
}
END
# A package as many are: with the files of its author's tools.
mkdir -p package/.github/workflows package/.vscode
printf '{"name": "plain", "version": "1.0.0", "main": "index.js"}\n' >package/package.json
printf 'module.exports = 1;\n' >package/index.js
printf 'language: node_js\n' >package/.travis.yml
printf 'on: push\n' >package/.github/workflows/ci.yml
printf '{}\n' >package/.vscode/settings.json
tar czf vendored/plain-1.0.0.tgz package && rm -rf package
printf 'require("fs").mkdirSync("dist", {recursive: true});\nrequire("fs").writeFileSync("dist/app.js", "1;\\n");\n' >build.js
printf 'const test = require("node:test");\ntest("adds", () => {});\n' >src/app.test.js
cat >src/server.js <<'END'
const server = require("http").createServer((request, response) => response.end("page\n"));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
END
! command -v npm >/dev/null || npm install --silent --package-lock-only --offline

printf 'def add(a, b):\n    return a + b\n' >py/calc.py
printf 'import unittest\n\nfrom calc import add\n\n\nclass TestAdd(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n' >py/test_calc.py
printf '#include <stdio.h>\n\nint main(void) { puts("hello"); return 0; }\n' >src/hello.c
printf 'all: hello\n\nhello: src/hello.c\n\t$(CC) -o $@ $<\n\ntest: hello\n\t./hello\n\nclean:\n\trm -f hello\n' >Makefile
printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n\n[[bin]]\nname = "app"\npath = "src/main.rs"\n' >Cargo.toml
printf 'fn main() { println!("hello"); }\n\n#[test]\nfn adds() { assert_eq!(1 + 1, 2); }\n' >src/main.rs
printf '# App\n\nTODO: say more.\n' >README.md
printf 'one\ntwo\nthree\n' >notes.txt
printf 'build/\ndist/\nnode_modules/\ntarget/\n.venv/\n.env\n' >.gitignore
git add . && git commit -qm 'Begin'
printf 'one\ntwo\nthree\nfour\n' >notes.txt && git commit -qam 'Add four'
git tag v1

git switch -qc feature
printf 'package lib\n\n// Sub subtracts.\nfunc Sub(a, b int) int { return a - b }\n' >lib/sub.go && git add . && git commit -qm 'Add Sub'
printf 'zero\none\ntwo\nthree\nfour\n' >notes.txt && git commit -qam 'Add zero'
git switch -qc conflict main && printf 'one\ntwo\nthree\nvier\n' >notes.txt && git commit -qam 'Say it otherwise'

# A branch with files whose names look dangerous or secret, and which every project has.
git switch -qc templates main
mkdir -p .github/workflows .vscode
printf 'API_KEY=\nPORT=8080\n' >.env.example
printf 'registry=https://registry.npmjs.org/\n' >.npmrc
{ echo '-----BEGIN CERTIFICATE-----'; head -c 600 /dev/urandom | base64; echo '-----END CERTIFICATE-----'; } >testdata/ca.pem
printf 'on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps: [{run: make test}]\n' >.github/workflows/ci.yml
printf '{"editor.tabSize": 2}\n' >.vscode/settings.json
git add . && git commit -qm 'Add templates'

git switch -q main
echo 'More text.' >>README.md && git commit -qam 'Say more'
git clone -q --bare . ../remote.git
git -C ../remote.git config uploadpack.allowFilter true
git remote add origin ../remote.git && git fetch -q && git branch -q -u origin/main main
git clone -q ../remote.git ../other
git -C ../other switch -qc release && echo 1.0 >../other/VERSION && git -C ../other add . && git -C ../other commit -qm 'Add a version'
git -C ../other push -q origin release && rm -rf ../other
git fetch -q
