package shell

import (
	"strings"

	"github.com/acphost/acphost/internal/wordset"
)

// interpreters run code that they get as an argument, as a file, or on their standard input. Versions at the end of a
// name ("python3.12", "lua5.4") are omitted.
var interpreters = wordset.Of(`
	python pypy pythonw ipython bpython node nodejs deno bun ts-node tsx esno ruby irb pry jruby perl php lua luajit tclsh
	wish expect rscript r julia runghc runhaskell ghci stack scala groovy kotlin clojure clj java jshell javaw erl escript
	elixir iex ocaml racket guile sbcl clisp scheme chicken csi gforth swift swipl octave matlab maxima gp sage dotnet
	awk gawk mawk nawk original-awk m4 dc ed ex vi vim vimdiff view nvim emacs emacsclient gdb lldb osascript
	psql mysql mariadb sqlite sqlite3 duckdb mongo mongosh redis-cli gnuplot qemu wine tclkit zx jupyter`)

// projectRunners run code that files of a project configure.
var projectRunners = wordset.Of(`
	make gmake bmake remake just task rake invoke fab scons waf cmake ctest ninja samu meson bazel bazelisk buck buck2
	gradle gradlew mvn mvnw ant sbt lein mix rebar3 dune cabal pytest tox nox nose2 jest vitest mocha ava karma cypress
	playwright phpunit rspec cucumber pre-commit lefthook husky lerna nx turbo rush grunt gulp webpack vite rollup esbuild
	parcel next nuxt ng vue astro nodemon concurrently tsc babel swc tauri expo flutter dart zig ansible-playbook terraform
	tofu vagrant skaffold tilt act earthly dagger hatch pdm pipx direnv mise asdf`)

// packageManagers install and run code from elsewhere, or run a project's scripts.
var packageManagers = wordset.Of(`
	npm npx yarn yarnpkg pnpm pnpx bunx corepack pip pipx uv uvx poetry conda mamba micromamba easy_install gem bundle
	bundler cargo rustup composer go brew apt apt-get aptitude dpkg yum dnf rpm zypper pacman yay apk snap flatpak nix
	nix-shell nix-env guix port emerge luarocks opam cpan cpanm nuget helm krew sdk nvm fnm volta rbenv pyenv`)

// networkClients send and fetch data, and some run commands on the other machine.
var networkClients = wordset.Of(`
	curl wget wget2 aria2c http https xh httpie lynx links w3m ssh scp sftp slogin mosh autossh sshpass rsync rclone ftp
	lftp tftp ncftp telnet nc ncat netcat socat nmap openssl gh glab hub aws gcloud gsutil az doctl heroku fly flyctl
	vercel netlify wrangler kubectl oc docker podman nerdctl buildah skopeo crictl lxc multipass mail sendmail mutt dig
	nslookup host ping whois s3cmd mc`)

// Interpreter reports whether a program, by its name or path, runs code that it gets: shells, languages, editors and
// debuggers with commands of their own. Its arguments do not determine its effects, so an answer about one run does not
// apply to another.
func Interpreter(program string) bool {
	name := unversioned(program)
	return interpreters[name] || wrappers[baseName(program)].kind == runsShell || wrappers[name].kind == runsShell
}

// unversioned returns the base name in lower case, without ".exe" and a version at its end.
func unversioned(program string) string {
	name := strings.TrimSuffix(strings.ToLower(baseName(program)), ".exe")
	if short := strings.TrimRight(name, "0123456789.-"); short != "" && !interpreters[name] {
		return short
	}
	return name
}
