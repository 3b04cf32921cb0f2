package draw

import (
	"fmt"
	"strconv"
	"strings"
)

// look is how text looks. The zero value is what a terminal begins with.
type look struct {
	bold, faint, italic, underline, struck, inverse bool
	fore, back                                      string // "#rrggbb"; empty: the picture's own
}

// named are the colours 0 to 15, as most editors' dark themes have them.
var named = [16]string{
	"#000000", "#f48771", "#89d185", "#e2c08d", "#75beff", "#d7a1e6", "#4ec9b0", "#d4d4d4",
	"#8a8a8a", "#ff9d8a", "#a5e6a1", "#f5d9a8", "#9cd2ff", "#e8bdf3", "#7fe0cb", "#ffffff",
}

// indexed is a colour of the table of 256: 16 by name, a cube of 6, and 24 greys.
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

// sgr obeys the parameters of a sequence. Those that it does not know change nothing.
func (l *look) sgr(parameters string) {
	all := strings.Split(parameters, ";")
	for i := 0; i < len(all); i++ {
		// A colour is "38;5;n", "38;2;r;g;b", or the same behind colons in one parameter.
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

// extended is the colour that parameters behind a 38 or a 48 stand for, and how many of them it takes.
func extended(p []string) (color string, used int) {
	switch {
	case len(p) >= 2 && p[0] == "5":
		return indexed(int(numberOf(p[1]))), 2
	case len(p) >= 4 && p[0] == "2":
		return rgb(int(numberOf(p[1])), int(numberOf(p[2])), int(numberOf(p[3]))), 4
	}
	return "", len(p) // what follows cannot be told apart from it
}

// colon obeys one parameter with parts: an underline's form, or a colour, whose colour space is left out or empty.
func (l *look) colon(parts []string) {
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

func (l *look) color(code int, c string) {
	switch {
	case c == "":
	case code == 38:
		l.fore = c
	default:
		l.back = c
	}
}

func (l *look) simple(code int) {
	switch {
	case code == 0:
		*l = look{}
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

// class is the look without its colours.
func (l *look) class() string {
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

// line is what a look draws where there are only blanks.
func (l *look) line() string {
	if l.underline || l.struck {
		return l.class()
	}
	return ""
}

// text is the colour of the text; empty: the picture's own.
func (l *look) text() string {
	if !l.inverse {
		return l.fore
	}
	if l.back != "" {
		return l.back
	}
	return background
}

// behind is the colour behind the text; empty: the picture's own.
func (l *look) behind() string {
	if !l.inverse {
		return l.back
	}
	if l.fore != "" {
		return l.fore
	}
	return foreground
}
