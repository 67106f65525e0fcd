import { z } from 'zod'
import { usualErrors } from '../kit/errors.ts'
import type { TokenServer } from '../kit/integration.ts'
import {
  baseUrl,
  defineIntegration,
  secret,
  textIn,
  type GrantDeclaration,
  type IntegrationSettings,
} from '../kit/integration.ts'

/** As Google's key files name its token endpoint. */
const tokenUris: ReadonlySet<string> = new Set([
  'https://oauth2.googleapis.com/token',
  'https://accounts.google.com/o/oauth2/token',
])

const keyFile = z.object({
  type: z.literal('service_account', { error: 'must be `service_account`: give the key file of one' }),
  client_email: z.email({ error: 'must be the address of the service account' }).max(320),
  private_key_id: z
    .string()
    .regex(/^[\w-]{1,200}$/)
    .optional(),
  private_key: z
    .string()
    .max(16_384)
    .regex(
      /^\s*-----BEGIN PRIVATE KEY-----[\sA-Za-z0-9+/=]+-----END PRIVATE KEY-----\s*$/,
      'must be a private key in PEM, as the key file has it',
    ),
  token_uri: baseUrl,
  universe_domain: z
    .literal('googleapis.com', { error: 'must be `googleapis.com`: other universes are not supported' })
    .optional(),
})

/** People often give the JSON as text. */
const keyFileOrText = z.preprocess((given) => {
  if (typeof given !== 'string' || given.length > 65_536) return given
  try {
    return JSON.parse(given)
  } catch {
    return given
  }
}, keyFile)

const originOf = (url: string): string => new URL(url).origin

const base = { base_url: baseUrl.optional().describe('Another address of all APIs of Google.') }
const serviceAccount = z
  .strictObject({
    service_account: keyFileOrText
      .meta({ writeOnly: true })
      .describe('The key file of a service account (JSON).'),
    ...base,
  })
  .refine(
    ({ service_account: { token_uri: tokenUri }, base_url: at }) =>
      at === undefined || originOf(tokenUri) === originOf(at),
    { path: ['base_url'], message: 'must be on the host of `token_uri` in the key file' },
  )
const ownClient = z.strictObject({ client_id: secret, client_secret: secret, refresh_token: secret, ...base })
/** Made in the browser, without the secret of the OAuth client, which the operator's settings have. */
const authorized = z.strictObject({
  authorized: z.strictObject({ client_id: secret, refresh_token: secret }),
  ...base,
})
type Credential = z.output<typeof serviceAccount> | z.output<typeof ownClient> | z.output<typeof authorized>

const apis = ['https://www.googleapis.com', 'https://docs.googleapis.com', 'https://sheets.googleapis.com']
const ownBase = apis[0]

export type GoogleApi = 'calendar' | 'drive' | 'docs' | 'sheets'

/** Without a slash at the end. */
export function apiAddress(base: string, api: GoogleApi): string {
  return base === ownBase && (api === 'docs' || api === 'sheets') ? `https://${api}.googleapis.com` : base
}

const scope = (name: string): string => `https://www.googleapis.com/auth/${name}`
/** The smallest set with which each tool works. */
const scopes: Readonly<Record<string, readonly string[]>> = {
  calendar_create_event: [scope('calendar.events')],
  docs_read: [scope('documents.readonly')],
  // `drive.file` does not reach a folder that a person has made.
  docs_create: [scope('drive')],
  sheets_read: [scope('spreadsheets.readonly')],
  sheets_append: [scope('spreadsheets')],
  // The search also reads the text of files.
  drive_search: [scope('drive.readonly')],
}
/** `spreadsheets` and `drive`, which an authorization asks for, include these. */
const included = [scope('spreadsheets.readonly'), scope('drive.readonly')]
const allScopes = [...new Set(Object.values(scopes).flat())].filter((each) => !included.includes(each))

/** For each scope, those that include it. A refresh token that a person enters may have them. */
const wider: Readonly<Record<string, readonly string[]>> = {
  'calendar.events': ['calendar'],
  'calendar.settings.readonly': ['calendar', 'calendar.readonly'],
  'documents.readonly': ['documents', 'drive', 'drive.readonly'],
  'drive.file': ['drive'],
  'drive.readonly': ['drive'],
  spreadsheets: ['drive'],
  'spreadsheets.readonly': ['spreadsheets', 'drive', 'drive.readonly'],
}

function missingScopes(tool: string, granted: readonly string[]): string[] {
  const held = new Set(granted)
  const includes = (needed: string): boolean =>
    held.has(needed) ||
    Object.entries(wider).some(
      ([name, all]) => scope(name) === needed && all.some((each) => held.has(scope(each))),
    )
  return (scopes[tool] ?? []).filter((needed) => !includes(needed))
}

function serverAt(at: string | undefined): TokenServer {
  if (at === undefined)
    return {
      issuer: 'https://accounts.google.com',
      authorizationEndpoint: 'https://accounts.google.com/o/oauth2/v2/auth',
      tokenEndpoint: 'https://oauth2.googleapis.com/token',
      revocationEndpoint: 'https://oauth2.googleapis.com/revoke',
      isDescribed: false,
    }
  return {
    issuer: at,
    authorizationEndpoint: `${at}/o/oauth2/v2/auth`,
    tokenEndpoint: `${at}/token`,
    revocationEndpoint: `${at}/revoke`,
    isDescribed: true,
  }
}

/** Undefined for Google's own. A token endpoint of the key file on another server means that the APIs are there. */
function baseOf(given: Credential): string | undefined {
  if (given.base_url !== undefined || !('service_account' in given)) return given.base_url
  const { token_uri: tokenUri } = given.service_account
  return tokenUris.has(tokenUri) ? undefined : originOf(tokenUri)
}

const grant: GrantDeclaration<Credential> = {
  of(given, { google: { client } }) {
    if ('service_account' in given) {
      const { client_email, private_key, private_key_id, token_uri } = given.service_account
      return {
        kind: 'service_account',
        tokenEndpoint: token_uri,
        email: client_email,
        keyId: private_key_id ?? null,
        privateKey: private_key,
      }
    }
    const server = serverAt(given.base_url)
    if ('client_id' in given) {
      const { client_id: id, client_secret, refresh_token: refreshToken } = given
      return {
        kind: 'refresh_token',
        server,
        client: { id, secret: client_secret },
        refreshToken,
        isOurs: false,
      }
    }
    const { client_id: id, refresh_token: refreshToken } = given.authorized
    return {
      kind: 'refresh_token',
      server,
      client: client?.id === id ? client : null,
      refreshToken,
      isOurs: true,
    }
  },
  renewed(given, refreshToken) {
    if ('authorized' in given)
      return { ...given, authorized: { ...given.authorized, refresh_token: refreshToken } }
    return 'client_id' in given ? { ...given, refresh_token: refreshToken } : given
  },
  namedEndpoint(given) {
    if (!('service_account' in given)) return null
    return { path: 'service_account.token_uri', address: given.service_account.token_uri }
  },
  scopesOf: (tool) => scopes[tool] ?? [],
  missingScopes,
  authorization({ google: { client, baseUrl: at } }) {
    if (client === null) return null
    return {
      server: serverAt(at ?? undefined),
      client,
      // The first two let this service read the account's name.
      scopes: ['openid', 'email', ...allScopes],
      // Google gives a refresh token only for `offline`, and at a second authorization only with `consent`.
      parameters: { access_type: 'offline', prompt: 'consent' },
    }
  },
  missingAuthorization: 'GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET',
  authorized: (refreshToken, { google: { client, baseUrl: at } }: IntegrationSettings) => ({
    authorized: { client_id: client?.id ?? '', refresh_token: refreshToken },
    ...(at === null ? {} : { base_url: at }),
  }),
}

export const google = defineIntegration<Credential>({
  name: 'google',
  title: 'Google',
  credential: z.union([serviceAccount, ownClient]),
  kept: z.union([serviceAccount, ownClient, authorized]),
  addresses(given) {
    const at = baseOf(given)
    return at === undefined ? apis : [at]
  },
  ownAddresses: (_, { google: { baseUrl: at } }) => [
    ...apis,
    ...tokenUris,
    ...(at === null ? [] : [at, `${at}/token`]),
  ],
  grant,
  headers: (_, accessToken = '') => ({ authorization: `Bearer ${accessToken}`, accept: 'application/json' }),
  async check(given, ask) {
    // Google has given an access token for this key.
    if ('service_account' in given) return { kind: 'account', account: given.service_account.client_email }
    const { status, json } = await ask({ method: 'GET', path: '/oauth2/v2/userinfo' })
    if (status === 429 || status >= 500) return { kind: 'unclear', status }
    // Google has just accepted the refresh token. Any other status means that its scopes do not show the name.
    return { kind: 'account', account: status === 200 ? textIn(json, 'email') : null }
  },
  errors: {
    ...usualErrors('google'),
    google_missing_scope: ['credential', 'connect again with the scope of the tool'],
    google_api_disabled: ['credential', 'turn on the API for the client in the Google Cloud console'],
    google_forbidden: ['credential', 'check the link, and share the file or calendar with the account'],
    google_not_found: ['caller', 'check the link, and share the file or calendar with the account'],
    google_storage_full: ['credential', 'free some room, or use a folder of a shared drive'],
    google_gone: ['caller', 'change the parameters'],
    google_too_large: ['caller', 'change the parameters'],
    google_other_file: ['caller', 'give the id or the link of the file itself'],
    google_readers_hidden: ['credential', 'let the account share the place'],
  },
})
