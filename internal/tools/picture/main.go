// Command picture draws the output of a command on a terminal as an SVG file. Its lines appear one after the other.
//
//	FORCE_COLOR=1 acphost demo | picture -title "acphost demo" > docs/demo.svg
//
// It reads text with terminal colors, and ignores other escape sequences.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"

	"github.com/acphost/acphost/internal/tools/picture/draw"
)

func main() {
	var o draw.Options
	flag.StringVar(&o.Title, "title", "", "what the picture shows")
	flag.BoolVar(&o.Still, "still", false, "show all lines at once")
	flag.Parse()
	var lines []string
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		lines = append(lines, in.Text())
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "read the lines to draw:", err)
		os.Exit(1)
	}
	fmt.Print(draw.SVG(lines, o))
}
