import { afterAll, beforeAll, beforeEach } from '@jest/globals'
import type { Emulator } from '../../support/emulators.ts'
import { startFaultProxy, type FaultProxy } from '../../support/fault-proxy.ts'
import { startScriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { askSlack, startSlack } from '../../support/slack-emulator.ts'

/** A workspace in the emulator, a proxy before it, and a server that answers as a test says. */
export class SlackStand {
  readonly #slack: Emulator
  readonly proxy: FaultProxy
  readonly scripted: ScriptedServer
  /** Ids in the emulator. */
  readonly at = { general: '', team: '', hidden: '', member: '' }

  constructor(slack: Emulator, proxy: FaultProxy, scripted: ScriptedServer) {
    this.#slack = slack
    this.proxy = proxy
    this.scripted = scripted
  }

  static async start(): Promise<SlackStand> {
    const [slack, scripted] = await Promise.all([
      startSlack({
        users: [{ name: 'member' }],
        channels: [{ name: 'team' }, { name: 'hidden', is_private: true }],
      }),
      startScriptedServer(),
    ])
    const stand = new SlackStand(slack, await startFaultProxy(slack.url), scripted)
    const { members } = await stand.ask('users.list', {})
    for (const { id, name } of [...(await stand.channels()), ...members])
      if (name in stand.at) stand.at[name as keyof typeof stand.at] = id
    return stand
  }

  ask(method: string, body: object): ReturnType<typeof askSlack> {
    return askSlack(this.#slack.url, method, body)
  }

  async channels(): Promise<Awaited<ReturnType<typeof askSlack>>['channels']> {
    const asked = { types: 'public_channel,private_channel', limit: 1_000 }
    return (await this.ask('conversations.list', asked)).channels
  }

  async sent(channel: string): Promise<Awaited<ReturnType<typeof askSlack>>['messages']> {
    return (await this.ask('conversations.history', { channel })).messages
  }

  async close(): Promise<void> {
    await Promise.all([this.proxy.close(), this.#slack.close(), this.scripted.close()])
  }
}

/** Starts a stand for all tests of a file, and passes it to `use`. */
export function useSlack(use: (stand: SlackStand) => void): void {
  let stand: SlackStand | undefined
  beforeAll(async () => {
    stand = await SlackStand.start()
    use(stand)
  })
  beforeEach(() => {
    if (stand === undefined) return
    stand.proxy.choose = () => 'pass'
    stand.scripted.arrived.splice(0)
  })
  afterAll(() => stand?.close())
}
