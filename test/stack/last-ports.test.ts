import { createServer } from 'node:net'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { portLike, rememberPorts } from '../../src/stack/last-ports.ts'
import { freePort } from '../../src/stack/ports.ts'
import { temporaryFolder } from './temporary-folder.ts'

test('a port is the one of the last start, unless another program uses it by now', async () => {
  const dataDir = temporaryFolder()
  const port = await freePort()
  rememberPorts(dataDir, { temporal_ui: port })
  rememberPorts(dataDir, { postgres: 1 })
  expect(await portLike(dataDir, 'temporal_ui')).toBe(port)
  const other = createServer()
  await new Promise<void>((resolve) => other.listen(port, '127.0.0.1', resolve))
  try {
    expect(await portLike(dataDir, 'temporal_ui')).not.toBe(port)
  } finally {
    await new Promise((resolve) => other.close(resolve))
  }
  expect(await portLike(dataDir, 'temporal_ui')).toBe(port)
})

test.each(['', '{"postgres": "x"}', '[]', '{"postgres": 99999999}'])(
  'a file with %j gives none',
  async (text) => {
    const dataDir = temporaryFolder()
    writeFileSync(join(dataDir, 'ports.json'), text)
    expect(await portLike(dataDir, 'postgres')).toBeGreaterThan(0)
    rememberPorts(dataDir, { temporal: 4 })
  },
)
