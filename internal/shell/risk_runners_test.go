package shell_test

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
)

// covers reports whether a rule for the words covers a line, considering dangers only.
func covers(words, line string) bool {
	return shell.Names(shell.Risks(strings.Fields(words)), shell.Risks(strings.Fields(line)))
}

func TestRisks_OptionsThatChangePrograms(t *testing.T) {
	for _, c := range []struct{ words, line string }{
		{"git commit", "git commit -F /etc/hostname"}, {"git commit", "git commit --file=/etc/hostname"}, {"git commit", "git commit --file ../x"},
		{"git commit", "git commit -aF/etc/hostname"}, {"git tag", "git tag -F /etc/hostname v1"}, {"git add", "git add --pathspec-from-file=/etc/hostname"},
		{"make test", "make test SHELL=./x"}, {"make test", "make test SHELL:=./x"}, {"make test", "make test CC=./x"}, {"make test", "make test X!=./x"},
		{"make test", "make test MAKEFLAGS=1"}, {"make test", "make test -C /x"}, {"make test", "make test -I/x"}, {"make test", "make test -E x"},
		{"make", "make SHELL=./x"}, {"just test", "just test x=./y"}, {"just test", "just test --shell ./x"}, {"task test", "task test CMD=./x"},
		{"npm test", "npm test --script-shell=./x"}, {"npm test", "npm test --script-sh ./x"}, {"npm run build", "npm run build --node-options=-r./x"},
		{"npm test", "npm test --prefix ../other"}, {"npm test", "npm test -C../other"}, {"npm install", "npm install -g x"},
		{"pnpm test", "pnpm test --script-shell ./x"}, {"pnpm test", "pnpm test --config.script-shell=./x"}, {"bun test", "bun test --preload ./x"},
		{"yarn test", "yarn test --cwd ../x"}, {"cargo test", "cargo test --manifest-path /x/Cargo.toml"}, {"cargo build", "cargo build --target ./x.json"},
		{"go test", "go test -exec ./x ./..."}, {"pytest", "pytest -o python_files=x"}, {"pytest", "pytest --junitxml=/x"}, {"python -m pytest", "python -m pytest -p x"},
		{"bundle exec rspec", "bundle exec rspec -r ./x"}, {"uv run pytest", "uv run pytest -c /x"}, {"mvn test", "mvn test -DargLine=-javaagent:x"},
		{"mvn test", "mvn test -f /x/pom.xml"}, {"./gradlew test", "./gradlew test -I /x"}, {"gradle test", "gradle test -Pexec=./x"}, {"cmake", "cmake -P x"},
		{"cmake", "cmake -DCMAKE_C_COMPILER=./x ."}, {"cmake", "cmake -E touch x"}, {"dotnet test", "dotnet test -p:VSTestTask=x"}, {"dotnet test", "dotnet test @x"},
		{"jest", "jest --globalSetup ./x"}, {"jest", "jest --global-setup=./x"}, {"vitest run", "vitest run --config=/x"}, {"node --test", "node --test --import ./x"}, {"deno test", "deno test -A"},
		{"rake test", "rake test -r ./x"}, {"ctest", "ctest -S x"}, {"mypy", "mypy --python-executable ./x"},
		// A danger that is named once is not named twice.
		{"go test -exec", "go test -exec ./x -exec ./y"}, {"go test -exec", "go test -exec ./x -toolexec ./y"}, {"make test CC=gcc", "make test CC=gcc SHELL=./x"},
		{"git commit -F", "git commit -F /x --file=/y"},
	} {
		if covers(c.words, c.line) {
			t.Errorf("a rule for %q takes %q", c.words, c.line)
		}
	}
}

func TestRisks_OmitCommonOptions(t *testing.T) {
	for _, c := range []struct{ words, line string }{
		{"git commit", "git commit -m x"}, {"git commit", "git commit -F -"}, {"git commit", "git commit -F message.txt"}, {"git commit", "git commit -am x --file=m"},
		{"make test", "make test -j4 V=1"}, {"make test", "make test CFLAGS=-O2"}, {"make", "make -k all"}, {"npm test", "npm test -- --watch --config x"},
		{"npm test", "npm test --silent -w a --workspaces"}, {"npm run", "npm run build --if-present"}, {"npm ci", "npm ci --ignore-scripts --no-audit"},
		{"pnpm test", "pnpm test --watch"}, {"yarn test", "yarn test -u"}, {"cargo test", "cargo test --release --workspace -- --nocapture"},
		{"go test", "go test -race -count=1 ./..."}, {"pytest", "pytest -q -x -k a tests/a.py"}, {"python3 -m pytest", "python3 -m pytest -q"},
		{"mvn test", "mvn test -q -DskipTests -Dtest=A"}, {"./gradlew test", "./gradlew test --info"}, {"cmake", "cmake -S . -B build -DCMAKE_BUILD_TYPE=Debug"},
		{"cmake", "cmake --build build -j4"}, {"node --test", "node --test a.js"}, {"node a.js", "node a.js -r x"}, {"jest", "jest --watch --coverage a"}, {"vitest", "vitest --run"}, {"pytest", "pytest --co"}, {"dotnet test", "dotnet test -c Release"},
		// A rule may name what an option does.
		{"git commit -F", "git commit -F /etc/hostname"}, {"make test SHELL=./x", "make test SHELL=./x"}, {"npm test --script-shell=./x", "npm test --script-shell=./x"},
		{"go test -exec", "go test -exec ./x"},
	} {
		if !covers(c.words, c.line) {
			t.Errorf("a rule for %q does not take %q: %q", c.words, c.line, shell.Risks(strings.Fields(c.line)))
		}
	}
}

func TestContacts_NamesCommandsThatContactMachines(t *testing.T) {
	for _, line := range []string{
		"curl https://example.com", "wget -q example.com/x", "ssh host ls", "git fetch", "git fetch origin main", "git -C sub pull", "git push origin main",
		"git clone https://example.com/x", "git ls-remote", "git remote update", "git submodule update --init", "npm install", "npm i left-pad", "npm ci", "npm --silent install",
		"pnpm add x", "yarn", "yarn add x", "pip install x", "pip3 install x", "uv pip install x", "cargo install x", "go get x", "go mod download",
		"scp a host:b", "rsync -a a host:b", "docker pull x", "apt-get install x", "dig example.com", "/usr/bin/curl x", "gh pr list",
	} {
		if !shell.Contacts(strings.Fields(line)) {
			t.Errorf("%q is not known to contact another machine", line)
		}
	}
	for _, line := range []string{
		"", "ls", "curl --version", "git status", "git fetch /srv/x", "git push ../x", "git commit -m fetch", "npm test", "npm run install-all", "npm install --offline",
		"scp a b", "rsync -a a b", "cargo build", "go build ./...", "docker ps", "make install", "python x.py", "git --version",
	} {
		if shell.Contacts(strings.Fields(line)) {
			t.Errorf("%q is reported to contact another machine", line)
		}
	}
}
