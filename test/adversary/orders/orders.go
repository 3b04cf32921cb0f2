// Package orders is what a test and its attackers say to each other: JSON, a line each. It knows no attack.
package orders

import "fmt"

// Order is what an attacker is to do.
type Order struct {
	Do   string   // the name of a deed
	Args []string `json:",omitempty"`
}

// Try is one thing that an attacker tried.
type Try struct {
	// What was tried: "prlimit AS".
	What string
	// Err is why it did not work: the name of an errno, a gRPC code, or words. Empty: it worked.
	Err string `json:",omitempty"`
	// Got is what it brought, or what the error said.
	Got string `json:",omitempty"`
}

// String is a line for people.
func (t Try) String() string {
	end := "worked"
	if t.Err != "" {
		end = "refused: " + t.Err
	}
	if t.Got != "" {
		end += fmt.Sprintf(" (%.300q)", t.Got)
	}
	return t.What + ": " + end
}

// Answer is what an attacker says to an order.
type Answer struct {
	Tries []Try `json:",omitempty"`
	// Failed is why the order could not be tried.
	Failed string `json:",omitempty"`
}
