// Package words has the words that package machine and the first process of its machines share.
package words

const (
	// Jobs is the file with what is to be done.
	Jobs = "/jobs"
	// Failed begins the line about an operation that was not done, or failed.
	Failed = "machine: FAILED:"
	// Over is the last line of a machine that has done all that it could.
	Over = "machine: over"
)
