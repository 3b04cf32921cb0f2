package draw

import (
	"fmt"
	"strconv"
	"strings"
)

// style is the style of text. The zero value is the initial style of a terminal.
type style struct {
	bold, faint, italic, underline, struck, inverse bool
	fore, back                                      string // "#rrggbb"; empty: the default
}

// named are the colors 0 to 15, as in most editors' dark themes.
var named = [16]string{
	"#000000", "#f48771", "#89d185", "#e2c08d", "#75beff", "#d7a1e6", "#4ec9b0", "#d4d4d4",
	"#8a8a8a", "#ff9d8a", "#a5e6a1", "#f5d9a8", "#9cd2ff", "#e8bdf3", "#7fe0cb", "#ffffff",
}

// indexed returns a color of the 256-color table: 16 named ones, a cube of 6, and 24 greys.
func indexed(n int) string {
	switch {
	case n < 0 || n > 255:
		return ""
	case n < 16:
		return named[n]
	case n < 232:
		n -= 16
		level := func(i int) int {
			if i == 0 {
				return 0
			}
			return 55 + 40*i
		}
		return rgb(level(n/36), level(n/6%6), level(n%6))
	}
	grey := 8 + 10*(n-232)
	return rgb(grey, grey, grey)
}

func rgb(r, g, b int) string { return fmt.Sprintf("#%02x%02x%02x", r&0xff, g&0xff, b&0xff) }

// sgr applies the parameters of a sequence. It ignores unknown parameters.
func (l *style) sgr(parameters string) {
	all := strings.Split(parameters, ";")
	for i := 0; i < len(all); i++ {
		// A color is "38;5;n", "38;2;r;g;b", or the same in one parameter with colons.
		if parts := strings.Split(all[i], ":"); len(parts) > 1 {
			l.colon(parts)
			continue
		}
		code := int(numberOf(all[i]))
		if code == 38 || code == 48 {
			c, used := extended(all[i+1:])
			l.color(code, c)
			i += used
			continue
		}
		l.simple(code)
	}
}

func numberOf(text string) uint8 {
	n, _ := strconv.ParseUint(text, 10, 8)
	return uint8(n)
}

// extended returns the color of the parameters after a 38 or a 48, and the number of parameters that it uses.
func extended(p []string) (color string, used int) {
	switch {
	case len(p) >= 2 && p[0] == "5":
		return indexed(int(numberOf(p[1]))), 2
	case len(p) >= 4 && p[0] == "2":
		return rgb(int(numberOf(p[1])), int(numberOf(p[2])), int(numberOf(p[3]))), 4
	}
	return "", len(p) // the end of an unknown form is unknown
}

// colon applies one parameter with parts: an underline's form, or a color, whose color space is omitted or empty.
func (l *style) colon(parts []string) {
	code := int(numberOf(parts[0]))
	switch {
	case code == 4:
		l.underline = parts[1] != "0"
	case code != 38 && code != 48:
	case parts[1] == "2" && len(parts) >= 6:
		c, _ := extended(append([]string{"2"}, parts[3:]...))
		l.color(code, c)
	default:
		c, _ := extended(parts[1:])
		l.color(code, c)
	}
}

func (l *style) color(code int, c string) {
	switch {
	case c == "":
	case code == 38:
		l.fore = c
	default:
		l.back = c
	}
}

func (l *style) simple(code int) {
	switch {
	case code == 0:
		*l = style{}
	case code == 1:
		l.bold = true
	case code == 2:
		l.faint = true
	case code == 3:
		l.italic = true
	case code == 4, code == 21:
		l.underline = true
	case code == 7:
		l.inverse = true
	case code == 9:
		l.struck = true
	case code == 22:
		l.bold, l.faint = false, false
	case code == 23:
		l.italic = false
	case code == 24:
		l.underline = false
	case code == 27:
		l.inverse = false
	case code == 29:
		l.struck = false
	case code >= 30 && code <= 37:
		l.fore = named[code-30]
	case code == 39:
		l.fore = ""
	case code >= 40 && code <= 47:
		l.back = named[code-40]
	case code == 49:
		l.back = ""
	case code >= 90 && code <= 97:
		l.fore = named[code-90+8]
	case code >= 100 && code <= 107:
		l.back = named[code-100+8]
	}
}

// class returns the CSS classes of the style without its colors.
func (l *style) class() string {
	var all []string
	for _, c := range []struct {
		is   bool
		name string
	}{
		{l.bold, "b"}, {l.italic, "i"}, {l.underline, "l"}, {l.struck && !l.underline, "s"},
		{l.bold && l.text() == "" && !l.faint, "w"}, {l.faint && l.text() == "", "f"},
	} {
		if c.is {
			all = append(all, c.name)
		}
	}
	return strings.Join(all, " ")
}

// line returns the style's lines through blanks.
func (l *style) line() string {
	if l.underline || l.struck {
		return l.class()
	}
	return ""
}

// text returns the color of the text; empty: the default.
func (l *style) text() string {
	if !l.inverse {
		return l.fore
	}
	if l.back != "" {
		return l.back
	}
	return background
}

// behind returns the color of the background; empty: the default.
func (l *style) behind() string {
	if !l.inverse {
		return l.back
	}
	if l.fore != "" {
		return l.fore
	}
	return foreground
}
