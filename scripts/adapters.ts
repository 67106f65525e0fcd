import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { adapterNames, packed } from '../src/api/adapters.ts'

/* `npm run adapters [-- FOLDER]`: packs the adapters into one file each, in FOLDER (`dist/adapters`). */

const folder = process.argv[2] ?? join('dist', 'adapters')
mkdirSync(folder, { recursive: true })
for (const name of adapterNames) {
  writeFileSync(join(folder, name), packed(name))
  console.log(`wrote ${join(folder, name)}`)
}
