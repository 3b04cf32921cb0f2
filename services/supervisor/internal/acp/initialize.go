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

// LatestVersion is the latest version of ACP that acphost supports. It supports all earlier versions, too.
const LatestVersion = 2

// CodeUnsupportedVersion is the error code of an agent that rejects the version of ACP in initialize.
const CodeUnsupportedVersion = -32022

// Initialize holds the members of the client's initialize request that the data path needs.
type Initialize struct {
	// ProtocolVersion is the latest version that the client supports, or 1 if the member is missing or invalid.
	ProtocolVersion int
	// TerminalOutput reports that the client shows terminals that it did not create
	// (clientCapabilities._meta.terminal_output).
	TerminalOutput bool
	// Notices reports that the client shows notice updates (clientCapabilities.session.notices).
	Notices bool
}

// ParseInitialize parses the params of an initialize request. Members of a wrong type count as missing.
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

// RewriteInitialize returns the line of an initialize request with changed capabilities. flags maps paths in
// clientCapabilities ("fs.readTextFile") to values. meta holds members that handlers add to clientCapabilities._meta.
// All other members keep their bytes.
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

// Initialized holds the members of the agent's answer to initialize that the data path needs.
type Initialized struct {
	// ProtocolVersion is the negotiated version, or 0 if the answer has none.
	ProtocolVersion int
	// Name and Version are the agent's own.
	Name, Version string
	// Raw is the whole result.
	Raw []byte
}

// ParseInitialized parses the result of initialize.
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
