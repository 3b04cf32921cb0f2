//go:build !race

package sandbox

// raceDetector says that the tests, and the processes that they start from this binary, run with the race detector.
const raceDetector = false
