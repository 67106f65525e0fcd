import type { ToolName } from '../../../src/tools/index.ts'
import { emulatorToken } from '../../support/emulators.ts'
import { connectionTo, contextWith } from '../connection.ts'
import { ServiceCall } from '../service-call.ts'

const credential = { client_id: 'c', client_secret: 's', refresh_token: 'r' }

interface Over {
  readonly base: string
  readonly account?: string | null
  /** The revision that the approvers saw. */
  readonly revision?: string
}

export class GoogleCall extends ServiceCall {
  constructor(name: ToolName, params: object, over: Over) {
    const { base, account = 'ana@acme.example', revision = null } = over
    const connection = connectionTo('google', credential, base, { account, accessToken: emulatorToken })
    super(name, params, contextWith(connection), { revision })
  }
}
