import { describe, expect, test } from '@jest/globals'
import { getTool, type ToolName } from '../../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../../src/catalog/tool.ts'
import { readConnected } from '../../../src/governance/tools/connections.ts'
import { toolView } from '../../../src/governance/tools/tool-view.ts'
import { until } from '../../stack/until.ts'
import { effectOf, opOf } from '../runs/engine-fixture.ts'
import { ana, client, connectionFor, connectWith as connectIn, tokenAnswer, useGoogle, type GoogleWorld } from './google-fixture.ts' // prettier-ignore

let world: GoogleWorld
useGoogle((started) => (world = started))

const connectWith = (credential: unknown) => connectIn(world, credential)
const use = (tool: ToolName) => connectionFor(world, tool)

describe('rights that the person has granted', () => {
  const scope = (name: string): string => `https://www.googleapis.com/auth/${name}`
  const grants = (granted: string | undefined) => {
    world.server.answer = ({ path }) => {
      if (path.includes('/.well-known/')) return { status: 404, body: '' }
      if (path === '/token')
        return tokenAnswer('t', { expires_in: 1, ...(granted === undefined ? {} : { scope: granted }) })
      return { status: 200, body: { email: ana } }
    }
  }
  const own = () => ({
    client_id: client.id,
    client_secret: client.secret,
    refresh_token: 'r',
    base_url: world.server.url,
  })

  test('are checked before a call, and the message names the missing one', async () => {
    grants(`openid ${scope('spreadsheets')}`)
    await connectWith(own())
    await use('sheets_read')
    world.server.arrived.length = 0
    const thrown = await use('docs_read').catch((error: unknown) => error)
    expect(thrown).toMatchObject({ code: 'connection_lacks_scope', retryable: false })
    expect((thrown as Error).message).toContain(scope('documents.readonly'))
    expect((thrown as Error).message).toContain('POST /tools/docs_read/connect')
    expect(world.server.arrived).toEqual([])
    // The connection still works for its other tools.
    await use('sheets_append')
  })

  test('are shown by the list of tools: connected, and not available', async () => {
    grants(`openid ${scope('spreadsheets')}`)
    await connectWith(own())
    const shown = async (name: ToolName) => {
      const tool = getTool(name) as ToolDeclaration
      const { organizationId } = world.engine
      const { userId } = world.engine.caller('admin')
      const connected = await readConnected(world.engine.context.db, organizationId, userId)
      return toolView(world.engine.context.config.tools, connected, tool, userId)
    }
    expect(await shown('sheets_read')).toMatchObject({ connected: true, available: true })
    expect(await shown('docs_read')).toMatchObject({
      connected: true,
      available: false,
      unavailable_because: expect.stringContaining('without a right that it needs: connect it again'),
    })
    expect(await shown('github_comment')).toMatchObject({ connected: false, available: false })
    const op = opOf(await world.engine.run(undefined, {}, 'admin'), {
      tool: getTool('docs_read') as ToolDeclaration,
    })
    expect(await world.engine.decide(op)).toMatchObject({ go: false, state: 'failed' })
    expect((await effectOf(world.engine.context, op))?.error).toMatchObject({
      code: 'connection_lacks_scope',
    })
    grants(`${scope('spreadsheets')} ${scope('documents')}`)
    await connectWith(own())
    expect(await shown('docs_read')).toMatchObject({ connected: true, available: true })
  })

  test('include those of a wider right', async () => {
    grants(scope('drive'))
    await connectWith(own())
    for (const tool of ['docs_read', 'docs_create', 'sheets_append', 'drive_search'] as const) await use(tool)
    await expect(use('calendar_create_event')).rejects.toMatchObject({ code: 'connection_lacks_scope' })
  })

  test('follow a refresh, and are not checked if the server names none', async () => {
    grants(undefined)
    await connectWith(own())
    await use('docs_read')
    grants(scope('spreadsheets'))
    // Access tokens of these tests are valid for one second.
    await until(
      'the next token lacks the scope',
      async () =>
        (await use('docs_read').catch((error: { code: string }) => error.code)) === 'connection_lacks_scope',
    )
  })
})
