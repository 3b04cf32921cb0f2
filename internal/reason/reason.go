// Package reason has the texts of the reasons why acphost asks about an action or rejects it. The user reads them in
// questions, the agent in the errors of denied calls. Rules of policies have their own reasons.
//
// A reason is a clause without a capital and a full stop, in the words of a user who does not know acphost. It does not
// repeat the action, which is shown beside it. Other packages define no reasons, so All lists every one.
package reason

import (
	"fmt"
	"iter"
)

// Reason is the text of a reason. Some have verbs of package fmt for values, see With.
type Reason int

// The reasons of the rules: what permd answers if a rule has no reason, or if no rule decides.
const (
	RuleDenies Reason = iota // the rule's id
	RuleAsks                 // the rule's id
	RuleAllows               // the rule's id
	PolicyDenies
	PolicyAsks
	PolicyAllows
	NoPolicy
	HostNotListed
	OutsideWorkspace
	CommandOutside
	CommandNotAllowed
	ActionNotAllowed

	// The policy cannot check an action.
	RequestUnreadable
	LineUnreadable
	ValueUnknown   // the words
	ValuesUnknown  // several words
	WordsUnknown   // the program
	ProgramUnknown // the word
	TargetUnknown
	FolderUnknown
	PathUnknown
	PathUnknownHandler // the handler
	HostUnknown
	FilesUnknown
	EffectUnknown
	RepositoryChanged
	LinkOutside // the word
	CommandUncertain
	TooManyGlobs

	// Rules of acphost itself.
	ProtectedFile
	ProtectedNamed
	ProtectedPossible
	KeyPossible
	ModeChange
	GitRuns
	CloudKeys
	ProxyItself
	PrivateAddress // the address
	AgentHost
	AgentHostUnneeded
	ForbiddenRead // the files
	ForbiddenShown
	LeftOut // the files
	FolderOutside
	SystemFile
	NoDirectNetwork
	NoNetwork
	PortUnused
	ReadsByDenyOnly
	StartByEffects
	SocketNotNamed
	PolicyChanged // the file

	// Answers.
	UserRejected
	RejectedBefore
	RejectedAlways
	AllowedRequest
	AllowedTry
	AskedByRequest
	NoUser
	NoAnswer        // the duration
	ClientCannotAsk // the problem
	CallChanged

	// A request that cannot be decided.
	NoSessionNamed
	NoSessionToAsk
	NoSessionOpen
	NoOptionToAllow
	Undecided      // the error
	PolicyFailed   // the error
	UnknownVerdict // the number
	NotRecorded
	ToClient

	// Processes in the sandbox.
	NotControllable
	NotAllowedInSandbox
	MountPoint
	DoneAnyway
	LinkToProtected
	GitSetting // the setting
	NoSessionOpenFile
	TooManyQuestions
	LateDecision
	AgentEnded

	count
)

var texts = [count]string{
	RuleDenies:        "rule %s forbids this",
	RuleAsks:          "rule %s asks about this",
	RuleAllows:        "rule %s allows this",
	PolicyDenies:      "the policy forbids this",
	PolicyAsks:        "the policy asks about this",
	PolicyAllows:      "the policy allows this",
	NoPolicy:          "no policy is set",
	HostNotListed:     "this host is not on the policy's list",
	OutsideWorkspace:  "this file is outside of the workspace",
	CommandOutside:    "this command uses files outside of the workspace",
	CommandNotAllowed: "no rule of the policy allows this command",
	ActionNotAllowed:  "no rule of the policy allows this",

	RequestUnreadable:  "acphost cannot read all of the agent's request",
	LineUnreadable:     "acphost cannot read all of this command line",
	ValueUnknown:       "acphost cannot check this command: the value of %s is only known when it runs",
	ValuesUnknown:      "acphost cannot check this command: the values of %s are only known when it runs",
	WordsUnknown:       "acphost cannot check this command: part of %s is only known when it runs",
	ProgramUnknown:     "acphost cannot check this command: the program %s is only known when it runs",
	TargetUnknown:      "acphost cannot check this command: the file that it writes is only known when it runs",
	FolderUnknown:      "acphost cannot check this command: the folder that it runs in is only known when it runs",
	PathUnknown:        "acphost cannot find out which file this path leads to",
	PathUnknownHandler: "acphost cannot find out which file this path leads to: handler %s is not running",
	HostUnknown:        "acphost cannot find out which host this connects to",
	FilesUnknown:       "acphost cannot find out which files this command uses",
	EffectUnknown:      "acphost does not know what this command does",
	RepositoryChanged:  "this can change which programs git runs later",
	LinkOutside:        "a symbolic link leads out of the workspace: `%s`",
	CommandUncertain:   "acphost is not sure which programs or files this command uses",
	TooManyGlobs:       "the policy forbids more files in these folders than acphost can leave out",

	ProtectedFile:     "this file belongs to acphost, and agents may not use it",
	ProtectedNamed:    "this command names a file that belongs to acphost",
	ProtectedPossible: "this command may use a file that belongs to acphost",
	KeyPossible:       "this command may read a key file; its files are only known when it runs",
	ModeChange:        "another mode can let the agent do more without a question",
	GitRuns:           "git runs this file, or programs that it names; use git commands instead",
	CloudKeys:         "this address gives out the cloud keys of this machine",
	ProxyItself:       "this is the address of acphost's own proxy",
	PrivateAddress:    "the address %s is not public, and no rule names it",
	AgentHost:         "the agent cannot work without this host",
	AgentHostUnneeded: "the agent works without this host; a rule can allow it by its name",
	ForbiddenRead:     "this command also reads %s, which the policy forbids",
	ForbiddenShown:    "this git command may show files that the policy forbids",
	LeftOut:           "left out, because the policy forbids it: %s",
	FolderOutside:     "outside of the workspace, the user can allow single files, but no folders",
	SystemFile:        "this path leads to a process or a device of the system, which agents may not open",
	NoDirectNetwork:   "programs connect only through acphost's proxy, which the variable HTTPS_PROXY names",
	NoNetwork:         "the network is switched off for this agent",
	PortUnused:        "no program listens on the port",
	ReadsByDenyOnly:   "without rules for processes, only deny rules apply to reads of processes",
	StartByEffects:    "no rule names the program: its actions are decided",
	SocketNotNamed:    "no rule with a path names the socket",
	PolicyChanged:     "%s has changed; run \"acphost policy reload\" to use the policy again",

	UserRejected:    "the user rejected this",
	RejectedBefore:  "the user rejected the same action a moment ago",
	RejectedAlways:  "the user chose to always reject this",
	AllowedRequest:  "this was allowed when the agent asked for it",
	AllowedTry:      "the user allowed this after the last try",
	AskedByRequest:  "the policy asks about the agent's request for this",
	NoUser:          "no user is there to answer",
	NoAnswer:        "no user answered within %v",
	ClientCannotAsk: "the client could not ask the user: %s",
	CallChanged:     "the agent changed the action while the question was open",

	NoSessionNamed:  "the request names no session",
	NoSessionToAsk:  "the call names no session in which the user could be asked",
	NoSessionOpen:   "no session is open in which the user could be asked",
	NoOptionToAllow: "the agent's question has no answer that allows this once",
	Undecided:       "acphost could not decide about this: %v",
	PolicyFailed:    "the policy did not answer, so nothing is allowed: %v",
	UnknownVerdict:  "the policy answered with an unknown verdict (%d)",
	NotRecorded:     "this was allowed, but acphost could not record it; its log says why",
	ToClient:        "the client asks the user itself",

	NotAllowedInSandbox: "the sandbox allows this to no process",
	NotControllable:     "the sandbox cannot control what the process does after this",
	MountPoint:          "this is an empty mount point for a sandbox that the agent uses",
	DoneAnyway:          "this was rejected, and the agent reports that it did it anyway",
	LinkToProtected:     "this would give another name to a file that the program may not change",
	GitSetting:          "it changes %s",
	TooManyQuestions:    "too many questions are open",
	LateDecision:        "acphost could not decide in time; try again later",
	NoSessionOpenFile:   "no session is open; if this file is the agent's own, list its folder in sandbox.own",
	AgentEnded:          "the agent has ended",
}

// String returns the text, with verbs of fmt in place of values.
func (r Reason) String() string { return texts[r] }

// With returns the text with values.
func (r Reason) With(values ...any) string { return fmt.Sprintf(texts[r], values...) }

// HowToAsk is what an agent can do after a denial that no user has decided.
const HowToAsk = "if this is needed, ask the user to do it or to allow it"

// All returns all texts, with verbs of fmt in place of values.
func All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, text := range texts {
			if !yield(text) {
				return
			}
		}
	}
}
