package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// LatestVersion is the latest version of ACP that acphost speaks; it speaks all before it too.
const LatestVersion = 2

// CodeUnsupportedVersion is the error by which an agent refuses the version of ACP that initialize asks for.
const CodeUnsupportedVersion = -32022

// Initialize is what the path needs of the client's initialize request.
type Initialize struct {
	// ProtocolVersion is the latest version that the client speaks; 1 where it says nothing that can be read.
	ProtocolVersion int
	// TerminalOutput: the client shows terminals that it did not create (clientCapabilities._meta.terminal_output).
	TerminalOutput bool
	// Notices: the client shows notice updates (clientCapabilities.session.notices).
	Notices bool
}

// ParseInitialize reads an initialize request's params. Whatever is absent or of a wrong type counts as not there.
func ParseInitialize(params []byte) Initialize {
	init := Initialize{ProtocolVersion: 1}
	if v, ok := Int(Get(params, "protocolVersion"), 32); ok {
		init.ProtocolVersion = int(v)
	}
	caps := Get(params, "clientCapabilities")
	init.TerminalOutput = string(Get(caps, "_meta", "terminal_output")) == "true"
	notices := Get(caps, "session", "notices")
	init.Notices = len(notices) > 0 && notices[0] == '{'
	return init
}

// RewriteInitialize returns the line of an initialize request with flags of clientCapabilities set, by the path to each
// ("fs.readTextFile"), and with what handlers add to clientCapabilities._meta (names to raw JSON values). Members that it does
// not set keep their bytes.
func RewriteInitialize(line []byte, flags map[string]bool, meta map[string]json.RawMessage) ([]byte, error) {
	var err error
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		path := append([]string{"params", "clientCapabilities"}, strings.Split(flag, ".")...)
		line, err = Set(line, strconv.AppendBool(nil, flags[flag]), path...)
		if err != nil {
			return nil, fmt.Errorf("advertise capability %q: %w", flag, err)
		}
	}
	for name, value := range meta {
		line, err = Set(line, value, "params", "clientCapabilities", "_meta", name)
		if err != nil {
			return nil, fmt.Errorf("advertise %q in clientCapabilities._meta: %w", name, err)
		}
	}
	return line, nil
}

// Initialized is what the path needs of the agent's answer to initialize.
type Initialized struct {
	// ProtocolVersion is the version that counts from here on; 0 where the answer does not say.
	ProtocolVersion int
	// Name and Version are what the agent says of itself.
	Name, Version string
	// Raw is the whole result.
	Raw []byte
}

// ParseInitialized reads the result of initialize.
func ParseInitialized(result []byte) Initialized {
	out := Initialized{Raw: bytes.Clone(result)}
	version, _ := Int(Get(result, "protocolVersion"), 32)
	out.ProtocolVersion = int(version)
	info := "agentInfo"
	if version >= 2 {
		info = "info"
	}
	out.Name, _ = String(Get(result, info, "name"))
	out.Version, _ = String(Get(result, info, "version"))
	return out
}
