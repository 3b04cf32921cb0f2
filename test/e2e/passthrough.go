package e2e

// Odd are values as peers write them that a proxy which decodes and encodes again would change.
const Odd = `{"z":1,"a":2,"1e2":1E+2,"n":-0.0,"big":12345678901234567890.10,"esc":"\u0061\/\ud83d\ude00","raw":"` + "\u2028ü\u007f" + `","dup":1,"dup":2,"_meta":{"k":[ 1 ,2 ]},"sp" : null }`
