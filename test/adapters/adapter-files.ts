import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { adapters } from '../../src/api/adapters.ts'
import { sharedCache } from '../../src/stack/temporal-binary.ts'

/* The adapters as files, packed from the present modules. The path has the checksum, so test files can share them. */

function fileOf(name: 'service_hook.py' | 'service_mcp.py'): string {
  const adapter = adapters().get(name)
  if (adapter === undefined) throw new Error(`there is no ${name}`)
  const folder = join(sharedCache(), `adapter-${adapter.sha256.slice(0, 16)}`)
  const file = join(folder, name)
  if (!existsSync(file)) {
    mkdirSync(folder, { recursive: true })
    const draft = join(folder, `.${name}.${process.pid}`)
    writeFileSync(draft, adapter.bytes)
    renameSync(draft, file)
  }
  return file
}

export const hookFile = fileOf('service_hook.py')
export const gatewayFile = fileOf('service_mcp.py')
