// Command machine runs tests in machines of another architecture, which QEMU plays, and under kernels with other
// settings than this one's: "make arm64". A machine consists of a kernel, of a program that is its first process
// (init/), a busybox and the tests, all in its memory; it has no disk and no network. QEMU translates each
// instruction, so everything takes about ten times as long.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/acphost/acphost/test/machine/words"
)

const (
	qemu = "qemu-system-aarch64"
	// longest is the time limit of a machine. It takes 2 to 4 minutes on an idle processor.
	longest = 20 * time.Minute
)

// machine is one that tests run in.
type machine struct {
	name, kernel string
	jobs         []string
}

// confined has the tests of what can be confined fail where they would be skipped.
const confined = "SANDBOX_TEST_CONFINED=1"

// procTests leaves out what starts thousands of processes.
const procTests = "/proc.test -test.v -test.timeout=8m -test.skip=AReaperOfOrphans"

var machines = []machine{
	{"Linux 6.12, Yama 1", "linux-6.12", []string{
		"/proc/sys/kernel/yama/ptrace_scope=1", confined,
		procTests, "/sandbox.test -test.v -test.short -test.timeout=15m", "/cgroup.test -test.v -test.timeout=5m",
	}},
	{"Linux 6.12, Yama 2: no tracing", "linux-6.12", []string{
		"/proc/sys/kernel/yama/ptrace_scope=2", "/sandbox.test -test.v -test.short -test.timeout=5m",
	}},
	{"Linux 6.1, Landlock 2", "linux-6.1", []string{
		procTests, "/sandbox.test -test.v -test.short -test.timeout=5m",
	}},
}

// tests are the packages whose tests run in the machine.
var tests = map[string]string{
	"sandbox.test": "./internal/sandbox", "proc.test": "./internal/proc", "cgroup.test": "./internal/cgroup",
}

func main() {
	parts := flag.String("parts", ".tools/arm64", "the `folder` with what test/machine/fetch.sh unpacks")
	only := flag.String("only", "", "run only the machines with this `text` in their names")
	flag.Parse()
	if err := run(*parts, *only); err != nil {
		fmt.Fprintf(os.Stderr, "machine: %v\n", err)
		os.Exit(1)
	}
}

func run(parts, only string) error {
	if _, err := exec.LookPath(qemu); err != nil {
		return fmt.Errorf("%s is not installed: apt-get install qemu-system-arm", qemu)
	}
	work, err := os.MkdirTemp("", "machine")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := build(work); err != nil {
		return err
	}
	var all []error
	for _, m := range machines {
		if !strings.Contains(m.name, only) {
			continue
		}
		fmt.Printf("--- %s\n", m.name)
		begun := time.Now()
		if err := m.run(parts, work); err != nil {
			all = append(all, fmt.Errorf("%s: %w", m.name, err))
		}
		fmt.Printf("--- %s: %v\n", m.name, time.Since(begun).Round(time.Second))
	}
	return errors.Join(all...)
}

// build compiles the tests and the first process.
func build(into string) error {
	commands := [][]string{{"build", "-o", filepath.Join(into, "init"), "./test/machine/init"}}
	for name, of := range tests {
		commands = append(commands, []string{"test", "-c", "-o", filepath.Join(into, name), of})
	}
	for _, args := range commands {
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// run starts the machine and prints its output. The error contains the failures.
func (m machine) run(parts, work string) error {
	image := filepath.Join(work, "image")
	if err := m.pack(image, parts, work); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, qemu, "-machine", "virt", "-cpu", "max", "-smp", "2", "-m", "1024", "-nodefaults", "-nographic",
		"-serial", "stdio", "-no-reboot", "-kernel", filepath.Join(parts, m.kernel), "-initrd", image,
		"-append", "console=ttyAMA0 quiet panic=-1")
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	failed, over := listen(output, os.Stdout)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("it was not over after %v", longest)
	case err != nil:
		return err
	case len(failed) > 0:
		return errors.New(strings.Join(failed, "; "))
	case !over:
		return errors.New("it ended before its tests did")
	}
	return nil
}

// listen forwards a machine's output, and returns the failures, and whether the machine ran to its end.
func listen(output io.Reader, to io.Writer) (failed []string, over bool) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		fmt.Fprintln(to, line)
		switch text := strings.TrimSpace(line); {
		case strings.HasPrefix(text, "--- FAIL"), strings.HasPrefix(text, words.Failed):
			failed = append(failed, text)
		case text == words.Over:
			over = true
		}
	}
	return failed, over
}

// pack makes the file system that the machine has in its memory.
func (m machine) pack(image, parts, work string) (err error) {
	file, err := os.Create(image)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	packed, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return err
	}
	a := archive{to: packed}
	a.folder("dev")
	a.add("dev/console", 0o020600, nil, 5, 1)
	a.file("jobs", 0o644, []byte(strings.Join(m.jobs, "\n")+"\n"))
	a.folder("etc")
	a.file("etc/passwd", 0o644, []byte("root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n"))
	a.file("etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n"))
	programs := map[string]string{"busybox": filepath.Join(parts, "busybox"), "init": filepath.Join(work, "init")}
	for name := range tests {
		programs[name] = filepath.Join(work, name)
	}
	for name, from := range programs {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		a.file(name, 0o755, content)
	}
	a.add("TRAILER!!!", 0, nil, 0, 0)
	return errors.Join(a.err, packed.Close())
}

// archive writes a cpio archive as the kernel reads it ("newc";
// Documentation/driver-api/early-userspace/buffer-format.rst).
type archive struct {
	to   io.Writer
	last int
	err  error
}

func (a *archive) folder(name string) { a.add(name, 0o040755, nil, 0, 0) }

func (a *archive) file(name string, mode uint32, content []byte) {
	a.add(name, 0o100000|mode, content, 0, 0)
}

func (a *archive) add(name string, mode uint32, content []byte, major, minor int) {
	a.last++
	var b bytes.Buffer
	fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", a.last, mode, 0, 0, 1, 0, len(content), 0, 0, major, minor, len(name)+1, 0)
	b.WriteString(name + "\x00")
	align := func() { b.Write(make([]byte, -b.Len()&3)) }
	align()
	b.Write(content)
	align()
	if _, err := a.to.Write(b.Bytes()); a.err == nil {
		a.err = err
	}
}
