// Where the program acphost is.
import { createRequire } from 'node:module';
import path from 'node:path';

/**
 * The file of the program: of the package "acphost", if that is installed beside this one; else "acphost", which the system
 * looks for in PATH.
 */
export function program(): string {
  try {
    const own = createRequire(import.meta.url).resolve(`@acphost/${process.platform}-${process.arch}/package.json`);
    return path.join(path.dirname(own), 'bin', 'acphost');
  } catch {
    return 'acphost';
  }
}
