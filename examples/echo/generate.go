package main

// The generated code and the descriptor set are made from echo.proto with the tools that the repository installs. A
// handler outside this repository would name acphost's proto folder as an import path instead.
//go:generate sh generate.sh
