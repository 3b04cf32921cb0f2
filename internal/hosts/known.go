package hosts

// Known are the machines that a program is known to connect to. The zero value knows nothing about any machine.
type Known struct {
	// Needed are the machines without which the program does not work.
	Needed []Pattern
	// Unneeded are the machines without which the program works as well, such as those for telemetry.
	Unneeded []Pattern
}
