// Package entries writes and reads messages between processes of acphost's own that have to stay small: lists of
// entries, "NAME=VALUE", each ended by a NUL, and an empty entry after the last. What is not set has no entry; a list
// has one for each of its values. No value has a NUL, as no argument, variable or path can have one.
//
// encoding/json would do as well, but it takes 0.1 MB of memory and more in each process that uses it, and such a
// process may stand beside each agent and each command. The package knows no messages of its own.
package entries

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
)

// A Message names each of its fields to a Codec, in the same order each time.
type Message interface{ Exchange(c *Codec) }

// Marshal returns the message in the form in which Read reads it. An error says that a value has a NUL.
func Marshal(m Message) ([]byte, error) {
	c := &Codec{}
	m.Exchange(c)
	return append(c.out, 0), c.err
}

// Read reads a message into one that is empty. Its errors are those of r, and one for what is not such a message.
func Read(r *bufio.Reader, m Message) error {
	c := &Codec{in: map[string][]string{}}
	for {
		text, err := r.ReadString(0)
		if err != nil {
			return err
		}
		name, value, ok := strings.Cut(text[:len(text)-1], "=")
		if !ok {
			break
		}
		c.in[name] = append(c.in[name], value)
	}
	m.Exchange(c)
	return c.err
}

// Codec writes the values of a message into out, or sets them to what in has.
type Codec struct {
	in  map[string][]string // nil: it writes
	out []byte
	err error // the first value that cannot be written, or read
}

func (c *Codec) fail(name string, err error) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %w", name, err)
	}
}

// Texts is a list.
func (c *Codec) Texts(name string, list *[]string) {
	if c.in != nil {
		*list = c.in[name]
		return
	}
	for _, value := range *list {
		if strings.IndexByte(value, 0) >= 0 {
			c.fail(name, fmt.Errorf("%q has a NUL, which ends an argument, a path or a variable", value))
		}
		c.out = append(append(append(append(c.out, name...), '='), value...), 0)
	}
}

// Text is a text; an empty one is not written.
func (c *Codec) Text(name string, value *string) {
	var list []string
	if *value != "" {
		list = []string{*value}
	}
	if c.Texts(name, &list); len(list) > 0 {
		*value = list[0]
	}
}

// Flag is a flag.
func (c *Codec) Flag(name string, value *bool) {
	var set string
	if *value {
		set = "1"
	}
	c.Text(name, &set)
	*value = set != ""
}

// Optional returns what is at p, or was written; nil if there is nothing.
func Optional[T any](c *Codec, name string, p **T) *T {
	there := *p != nil
	if c.Flag(name, &there); there && *p == nil {
		*p = new(T)
	}
	return *p
}

type integer interface {
	~int | ~int64 | ~uint | ~uint16 | ~uint32
}

// Number is a number; 0 is written, too.
func Number[T integer](c *Codec, name string, value *T) {
	list := []T{*value}
	if Numbers(c, name, &list); len(list) > 0 {
		*value = list[0]
	}
}

// Numbers is a list of numbers.
func Numbers[T integer](c *Codec, name string, list *[]T) {
	var texts []string
	for _, n := range *list {
		texts = append(texts, strconv.FormatInt(int64(n), 10))
	}
	c.Texts(name, &texts)
	if c.in == nil {
		return
	}
	*list = nil
	for _, text := range texts {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			c.fail(name, err)
		}
		*list = append(*list, T(n)) // #nosec G115 -- the other end is this program, too, and wrote a T
	}
}
