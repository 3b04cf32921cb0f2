// Package adversary attacks acphost with hostile agents, as programs, against the binaries that users get.
//
// An attack has two halves. The attacker (the program in attacker/) is started by acphost itself, as an agent or as a
// command that an agent runs in a terminal, and does there what a test orders it to do, over a socket of the test's; for
// each thing that it tries it says how that went. The test says what the right outcome is: the attacker is refused, or, for
// what is a documented limit, what stands all the same. An attack that could not even be tried fails its test, so that it
// is never taken for one that was refused.
//
// To add an attack:
//
//   - Write what the attacker does as a function in attacker/ and enter it in deeds under a name. It returns a Try for each
//     thing tried: with the errno or gRPC code that refused it, or with none where it worked. An error is for an attack
//     that could not be tried.
//   - Write a test in the file of its family, one file for each, that opens a fixture, takes a hand (s.hand: the agent's
//     process; s.command: a command in a terminal; hand.spawn: a process that got away from either) and has it try. Say
//     what must come of it by behaviour, not by how acphost does it. Try both positions where both make sense.
//   - See it fail once, on binaries from before the wall that it is about.
//
// The suite runs as whoever starts it, and where that is root a second time with everything, acphost included, under an
// unprivileged user. It needs Linux, and it knows nothing of acphost's packages: only its programs, contracts and files.
package adversary
