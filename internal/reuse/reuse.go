// Package reuse defines for which other actions acphost can reuse a policy's answer (Reuse in the policies' contract),
// and which files must be unchanged for that. A policy and acphost have to agree on both.
//
// It must not know rules, nor the content of answers.
package reuse

import (
	"encoding/binary"
	"path"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	// maxName is the limit of a file's name, in bytes.
	maxName = 255
	// maxAction is the limit of an action as a key of a kept answer, in bytes.
	maxAction = 16 << 10
)

// Name returns the name of the file in an action, if an answer may apply to other names instead. Such an action is a
// call that reads one file inside of the session's roots, or a file access of a process that reads or changes one,
// whose two paths end in that name. The name is empty for a process that starts a program: its answer may apply to the
// same action again.
func Name(a *permissionv1.Action) (name string, ok bool) {
	if _, ok := ofProgram(a); ok {
		return "", true
	}
	if !plainAccess(a) || a.GetDone() || a.GetUnparsed() != "" || a.GetUnreachableHandler() != "" ||
		a.GetCommand() != nil || a.GetEndpoint() != nil || len(a.GetPaths()) != 1 {
		return "", false
	}
	file := a.GetPaths()[0]
	if !file.GetInsideRoots() || file.GetProtected() || file.GetRecursive() || file.GetCommitted() {
		return "", false
	}
	asked, resolved := file.GetPath(), file.GetResolvedPath()
	if !path.IsAbs(asked) || !path.IsAbs(resolved) || path.Clean(asked) != asked || path.Clean(resolved) != resolved {
		return "", false
	}
	name = path.Base(asked)
	return name, path.Base(resolved) == name && Plain(name)
}

// ofProgram returns the key of the start of a program: the whole action. ok is false for another action, for one above
// maxAction, and for one with a text that is not UTF-8.
func ofProgram(a *permissionv1.Action) (key string, ok bool) {
	if a.GetKind() != "terminal.create" || a.GetDoor() != permissionv1.Door_DOOR_KERNEL || a.GetCommand() == nil || a.GetDone() {
		return "", false
	}
	all, err := proto.MarshalOptions{Deterministic: true}.Marshal(a)
	return string(all), err == nil && len(all) <= maxAction
}

// IsProcessRead reports whether a process reads a file, so that an answer may apply to every file that the session's
// processes read.
func IsProcessRead(a *permissionv1.Action) bool {
	return a.GetDoor() == permissionv1.Door_DOOR_KERNEL && a.GetKind() == "fs.read" && a.GetCommand() == nil && len(a.GetPaths()) == 1
}

// plainAccess reports whether an action is a simple access to one file: a read by a client call, or a read or a change
// by a process, where both paths agree.
func plainAccess(a *permissionv1.Action) bool {
	access := permissionv1.Access_ACCESS_UNSPECIFIED
	switch a.GetKind() {
	case "fs.read":
		access = permissionv1.Access_ACCESS_READ
	case "fs.write":
		access = permissionv1.Access_ACCESS_WRITE
	}
	if access == permissionv1.Access_ACCESS_UNSPECIFIED || len(a.GetPaths()) != 1 || a.GetPaths()[0].GetAccess() != access {
		return false
	}
	return a.GetDoor() == permissionv1.Door_DOOR_KERNEL || a.GetDoor() == permissionv1.Door_DOOR_CALL && a.GetKind() == "fs.read"
}

// Plain reports whether every file system treats a name as distinct from all others, except in case.
func Plain(name string) bool {
	return len(name) <= maxName && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("._-+@=, ", r)
	})
}

// Excepted reports whether an answer does not apply to a name.
func Excepted(name string, except []string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(except, func(part string) bool { return strings.Contains(name, part) })
}

// Key returns equal keys for two actions that have a Name and differ only in the name and in the parts that, by Reuse,
// the answer does not depend on. For the start of a program, the key is the whole action.
func Key(a *permissionv1.Action) string {
	if all, ok := ofProgram(a); ok {
		return all
	}
	var key []byte
	add := func(texts ...string) { key = appendTexts(key, texts) }
	file := a.GetPaths()[0]
	add(path.Dir(file.GetPath()), path.Dir(file.GetResolvedPath()))
	add(strconv.FormatBool(file.GetGitInternal()), strconv.FormatBool(file.GetGitState()), strconv.FormatBool(file.GetPublic()))
	add(strconv.FormatBool(file.GetHoldsPrivateKey()))
	return keyOf(key, a)
}

// KeyOfReads returns equal keys for all reads of the processes of one session.
func KeyOfReads(a *permissionv1.Action) string { return keyOf([]byte("reads"), a) }

// keyOf appends the parts besides the file that an answer depends on.
func keyOf(key []byte, a *permissionv1.Action) string {
	add := func(texts ...string) { key = appendTexts(key, texts) }
	add(a.GetKind(), a.GetDoor().String(), a.GetAgent(), a.GetMode(), a.GetMethod(), a.GetTool())
	add(a.GetRoots()...)
	add(a.GetResolvedRoots()...)
	for _, wall := range a.GetWalls() {
		add(wall.String())
	}
	return string(key)
}

func appendTexts(key []byte, texts []string) []byte {
	key = binary.AppendUvarint(key, uint64(len(texts)))
	for _, text := range texts {
		key = append(binary.AppendUvarint(key, uint64(len(text))), text...)
	}
	return key
}
