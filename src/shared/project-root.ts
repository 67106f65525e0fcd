import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** From the sources and from the build. */
export function projectRoot(): string {
  let folder = fileURLToPath(new URL('.', import.meta.url))
  while (!existsSync(join(folder, 'package.json'))) {
    const parent = join(folder, '..')
    if (parent === folder) throw new Error('package.json not found above the program, install it again')
    folder = parent
  }
  return folder
}
