package shell

import (
	"slices"
	"strings"
)

// options is the option grammar of a program: its options, and which of them have a value. With an unknown option, the
// start of the operands is unknown. Options end at the first operand, as they must for a program that runs another
// command.
type options struct {
	// flags are the short options without a value.
	flags string
	// values are the short options with a value, attached or as the next word.
	values string
	// separate are the short options whose value is always the next word, even in the middle of a cluster: "bash -oc
	// pipefail LINE".
	separate string
	// attached are the short options with an optional value, which must be attached: "-i" and "-iX".
	attached string
	// long are the long options: without a value; with "=" at the end, with a value (attached or the next word); with
	// "[=" at the end, with an optional attached value.
	long []string
	// plus allows options that begin with "+", too.
	plus bool
	// numeric allows "-5" as an option.
	numeric bool
}

// option is one option that was given.
type option struct {
	name  string // "n", "signal"
	value string
}

// take splits the words after a program's name into options and operands. It returns false if that is uncertain:
// because of an unknown option, or a dynamic word among the options, which may expand to any number of words.
func (o *options) take(args []word) (given []option, operands []word, ok bool) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg.dynamic {
			return nil, nil, false
		}
		name, isLong := strings.CutPrefix(arg.text, "--")
		switch {
		case arg.text == "--":
			return given, args[i+1:], true
		case isLong:
			opt, takesNext, ok := o.longOption(name)
			if !ok {
				return nil, nil, false
			}
			if takesNext {
				if i++; i == len(args) || args[i].dynamic {
					return nil, nil, false
				}
				opt.value = args[i].text
			}
			given = append(given, opt)
		case o.numeric && len(arg.text) > 1 && arg.text[0] == '-' && strings.Trim(arg.text[1:], "0123456789") == "":
			given = append(given, option{name: "n", value: arg.text[1:]})
		case len(arg.text) > 1 && (arg.text[0] == '-' || (o.plus && arg.text[0] == '+')):
			opts, takesNext, ok := o.shortOptions(arg.text[1:])
			if !ok {
				return nil, nil, false
			}
			for j := 0; takesNext > 0; j++ {
				if opts[j].value != "" || !strings.Contains(o.separate+o.values, opts[j].name) {
					continue
				}
				if i++; i == len(args) || args[i].dynamic {
					return nil, nil, false
				}
				opts[j].value = args[i].text
				takesNext--
			}
			given = append(given, opts...)
		default:
			return given, args[i:], true
		}
	}
	return given, nil, true
}

func (o *options) longOption(text string) (opt option, takesNext, ok bool) {
	name, value, hasValue := strings.Cut(text, "=")
	for _, known := range o.long {
		base := strings.TrimSuffix(strings.TrimSuffix(known, "="), "[")
		if base != name {
			continue
		}
		switch {
		case strings.HasSuffix(known, "[="):
			return option{name, value}, false, true
		case strings.HasSuffix(known, "="):
			return option{name, value}, !hasValue, true
		}
		return option{name: name}, false, !hasValue
	}
	return opt, false, false
}

// shortOptions parses a cluster: "-xvf". takesNext is the number of following words that are values of its options.
func (o *options) shortOptions(cluster string) (given []option, takesNext int, ok bool) {
	for i := range len(cluster) {
		name := cluster[i : i+1]
		switch {
		case strings.Contains(o.flags, name):
			given = append(given, option{name: name})
		case strings.Contains(o.values, name):
			given = append(given, option{name, cluster[i+1:]})
			if i+1 == len(cluster) {
				takesNext++
			}
			return given, takesNext, true
		case strings.Contains(o.separate, name):
			given = append(given, option{name: name})
			takesNext++
		case strings.Contains(o.attached, name):
			return append(given, option{name, cluster[i+1:]}), takesNext, true
		default:
			return nil, 0, false
		}
	}
	return given, takesNext, true
}

func has(given []option, names ...string) bool {
	return slices.ContainsFunc(given, func(opt option) bool { return slices.Contains(names, opt.name) })
}
