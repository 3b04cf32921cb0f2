package acp

import (
	"bytes"
	"slices"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc/lex"
)

// method is one of ACP's methods.
type method struct {
	name string
	// others are names that peers use for it, separated by spaces: those of the protocol's drafts, of SDKs (the names of their
	// functions), and of clients that read both. The first is the one that is tried with an agent that does not know name.
	// Upper and lower case, and what stands between the words, do not count: "readTextFile" stands for "read_text_file" too.
	others string
	// session: its params name a session.
	session bool
}

// methods are the methods that have been called by other names. All that acphost knows of such names is here.
var methods = []method{
	// The client's.
	{MethodInitialize, "acp/initialize", false},
	{MethodAuthenticate, "acp/authenticate", false},
	{MethodSessionNew, "newSession acp/new_session session/new_session", false},
	{MethodSessionLoad, "loadSession acp/load_session", true},
	{MethodSessionResume, "resumeSession unstable_resumeSession", true},
	{MethodSessionFork, "forkSession unstable_forkSession", true},
	{MethodSessionClose, "closeSession unstable_closeSession", true},
	{MethodSessionDelete, "deleteSession unstable_deleteSession", true},
	{"session/list", "listSessions unstable_listSessions", false},
	{MethodSessionPrompt, "prompt acp/prompt", true},
	{MethodSessionCancel, "cancel acp/cancel session/cancelled", true},
	{MethodSessionSetMode, "setSessionMode setMode", true},
	{MethodSessionSetModel, "setSessionModel unstable_setSessionModel setModel session/select_model", true},
	{MethodSessionSetOption, "setSessionConfigOption setConfigOption", true},
	// The agent's.
	{MethodSessionUpdate, "sessionUpdate acp/session_update", true},
	{MethodSessionEndTurn, "endTurn", true},
	{MethodAuthComplete, "authComplete", false},
	{MethodRequestPermission, "requestPermission acp/request_permission permission/request", true},
	{MethodReadTextFile, "readTextFile acp/read_text_file fs/read_text", true},
	{MethodWriteTextFile, "writeTextFile acp/write_text_file fs/write_text", true},
	{MethodListDirectory, "listDirectory", true},
	{MethodTerminalCreate, "createTerminal", true},
	{MethodTerminalOutput, "terminalOutput getTerminalOutput", true},
	{MethodTerminalWait, "waitForTerminalExit terminal/waitForTerminalExit", true},
	{MethodTerminalKill, "killTerminal killTerminalCommand terminal/killCommand", true},
	{MethodTerminalRelease, "releaseTerminal", true},
	{MethodTerminalRun, "runTerminal", true},
	// An elicitation may belong to a request instead of a session.
	{MethodElicitationCreate, "createElicitation unstable_createElicitation session/elicitation", false},
	{"elicitation/complete", "completeElicitation unstable_completeElicitation session/elicitation/complete", false},
	// Either's.
	{MethodCancelRequest, "cancelRequest", false},
}

// named is a method with its name as bytes.
type named struct {
	method
	today []byte
}

// names are the methods by all names of the table, as they are spelled there; folded are those by all names as fold spells
// them.
var names, folded = func() (map[string]*named, map[string]*named) {
	names, folded := map[string]*named{}, map[string]*named{}
	for _, method := range methods {
		m := &named{method, []byte(method.name)}
		for _, name := range append(strings.Fields(m.others), m.name) {
			names[name] = m
			folded[string(fold([]byte(name)))] = m
		}
	}
	return names, folded
}()

// maxMethod is how long a name may be that is looked at, in bytes.
const maxMethod = 256

// fold returns the letters and digits of a name, all in upper case.
func fold(name []byte) []byte {
	return slices.DeleteFunc(lex.AppendFolded(nil, name), func(c byte) bool { return (c < 'A' || c > 'Z') && (c < '0' || c > '9') })
}

// Method returns the name that ACP has today for the method that a name means, or name itself, where it is no other name
// of one. Names that begin with "_" are extensions, which belong to whoever made them up. For the names of the table it costs
// a look into a map, and allocates nothing. What it returns must not be changed.
func Method(name []byte) []byte {
	m := names[string(name)]
	if m == nil && len(name) > 0 && len(name) <= maxMethod && name[0] != '_' {
		m = folded[string(fold(name))]
	}
	if m == nil {
		return name
	}
	return m.today
}

// OtherNames are the names in the table by which peers call one of ACP's methods, the likeliest one of an older agent first.
func OtherNames(name string) []string {
	if m := names[name]; m != nil {
		return strings.Fields(m.others)
	}
	return nil
}

// NameLike returns the name of a method for a peer who calls another method by name: that of today, unless the peer's name is of a
// dialect of the table, camel case ("newSession") or the protocol's drafts ("acp/new_session"), that has one for the method, too.
func NameLike(method, name string) string {
	if Method([]byte(name)) == nil || string(Method([]byte(name))) == name {
		return method
	}
	draft := strings.HasPrefix(name, "acp/")
	for _, other := range OtherNames(method) {
		if draft && strings.HasPrefix(other, "acp/") || !draft && !strings.Contains(name, "/") && !strings.ContainsAny(other, "/_") {
			return other
		}
	}
	return method
}

// OfSession reports whether the params of one of ACP's methods name a session.
func OfSession(name []byte) bool {
	m := names[string(name)]
	return m != nil && m.session
}

// resembling are the words of the methods that reach files and start commands, as fold spells them, and the method that a
// name with these words is taken for.
var resembling = []struct{ words, method string }{
	{"WRITETEXTFILE", MethodWriteTextFile}, {"READTEXTFILE", MethodReadTextFile}, {"LISTDIRECTORY", MethodListDirectory},
	{"CREATETERMINAL", MethodTerminalCreate}, {"TERMINALCREATE", MethodTerminalCreate},
	{"RUNTERMINAL", MethodTerminalCreate}, {"TERMINALRUN", MethodTerminalCreate},
	// Of the protocol before its version 1, which knew no sessions, and answered the last one in a shape of its own.
	{"READBINARYFILE", MethodReadTextFile}, {"GLOBSEARCH", MethodListDirectory}, {"REQUESTTOOLCALLCONFIRMATION", MethodTerminalCreate},
}

// Resembles returns the method of ACP's that a name could be taken for which is no name of any: a client that knows more
// names than acphost could do by it what that method does. So it is for every name below "fs/" and "terminal/". Empty: there
// is none. A name is one that Method has returned.
func Resembles(name []byte) string {
	if len(name) == 0 || name[0] == '_' || names[string(name)] != nil {
		return ""
	}
	space, _, _ := bytes.Cut(bytes.Map(func(r rune) rune {
		if strings.ContainsRune("_.:-", r) {
			return '/'
		}
		return r
	}, name), []byte("/"))
	switch string(fold(space)) {
	case "FS":
		return MethodWriteTextFile
	case "TERMINAL":
		return MethodTerminalCreate
	}
	letters := fold(name)
	i := slices.IndexFunc(resembling, func(r struct{ words, method string }) bool { return bytes.Contains(letters, []byte(r.words)) })
	if i < 0 {
		return ""
	}
	return resembling[i].method
}

// Scanner is a jsonrpc.Scanner that calls each of ACP's methods by the name that it has today. The zero value is ready. It
// is not safe for concurrent use.
type Scanner struct{ jsonrpc.Scanner }

// Scan is jsonrpc.Scanner.Scan. m.Raw is as it came.
func (s *Scanner) Scan(line []byte, m *jsonrpc.Message) *jsonrpc.Error {
	jerr := s.Scanner.Scan(line, m)
	if m.Method != nil && string(m.Method) != MethodSessionUpdate { // most of what comes
		m.Method = Method(m.Method)
	}
	return jerr
}
