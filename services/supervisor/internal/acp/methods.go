package acp

import (
	"bytes"
	"slices"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// method is a method of ACP.
type method struct {
	name string
	// others are other names of the method, separated by spaces: names in drafts of the protocol, names of functions in
	// SDKs, and names that clients accept in addition. The first one is used with an agent that does not know name.
	// Case and separators do not count: "readTextFile" is equal to "read_text_file".
	others string
	// session reports that its params name a session.
	session bool
}

// methods lists the methods with other names. acphost has no other list of such names.
var methods = []method{
	// Methods of the client.
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
	// Methods of the agent.
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
	// Methods of both.
	{MethodCancelRequest, "cancelRequest", false},
}

// named is a method with its name as bytes.
type named struct {
	method
	today []byte
}

// names maps the exact names in the table to methods. folded maps the folded names.
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

// maxMethod limits the bytes of a name that is looked up.
const maxMethod = 256

// fold returns the letters and digits of a name in upper case.
func fold(name []byte) []byte {
	return slices.DeleteFunc(lex.AppendFolded(nil, name), func(c byte) bool { return (c < 'A' || c > 'Z') && (c < '0' || c > '9') })
}

// Method returns the current ACP name of a method, or name itself if it is not another name of a known method. Names
// that begin with "_" are extensions, and are returned unchanged. For exact names it needs one map look-up and does not
// allocate. The result must not be modified.
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

// OtherNames returns the other names of an ACP method in the table. The most likely name in an older agent is the
// first.
func OtherNames(name string) []string {
	if m := names[name]; m != nil {
		return strings.Fields(m.others)
	}
	return nil
}

// NameLike returns the name of a method for a peer that calls another method by name. It is the current name, unless
// the peer's name follows a convention of the table, camel case ("newSession") or the protocol's drafts
// ("acp/new_session"), that has a name for the method, too.
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

// OfSession reports whether the params of an ACP method name a session.
func OfSession(name []byte) bool {
	m := names[string(name)]
	return m != nil && m.session
}

// resembling lists folded words of methods that access files or start commands, and the method that a name with these
// words is taken for.
var resembling = []struct{ words, method string }{
	{"WRITETEXTFILE", MethodWriteTextFile}, {"READTEXTFILE", MethodReadTextFile}, {"LISTDIRECTORY", MethodListDirectory},
	{"CREATETERMINAL", MethodTerminalCreate}, {"TERMINALCREATE", MethodTerminalCreate},
	{"RUNTERMINAL", MethodTerminalCreate}, {"TERMINALRUN", MethodTerminalCreate},
	// From the protocol before its version 1, which had no sessions, and a different format of the answer to the last
	// method.
	{"READBINARYFILE", MethodReadTextFile}, {"GLOBSEARCH", MethodListDirectory}, {"REQUESTTOOLCALLCONFIRMATION", MethodTerminalCreate},
}

// Resembles returns the ACP method that an unknown name may mean to a client that accepts more names than acphost.
// Every name below "fs/" and "terminal/" resembles a method. It returns "" if there is none. name is a result of
// Method.
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

// Scanner is a jsonrpc.Scanner that replaces other names of ACP methods by their current names. The zero value is
// ready. It is not safe for concurrent use.
type Scanner struct{ jsonrpc.Scanner }

// Scan is jsonrpc.Scanner.Scan. m.Raw is unchanged.
func (s *Scanner) Scan(line []byte, m *jsonrpc.Message) *jsonrpc.Error {
	jerr := s.Scanner.Scan(line, m)
	if m.Method != nil && string(m.Method) != MethodSessionUpdate { // the most frequent message
		m.Method = Method(m.Method)
	}
	return jerr
}
