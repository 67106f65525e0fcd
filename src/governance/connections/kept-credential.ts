import { z } from 'zod'
import type { IntegrationDeclaration } from '../../tools/kit/integration.ts'
import { catalog } from '../../tools/index.ts'
import type { ToolDeclaration } from '../../tools/kit/tool.ts'

/** The content of a connection's secret. */
export interface KeptCredential<Credential> {
  readonly credential: Credential
  /** The result of the latest refresh. */
  readonly accessToken: string | null
  /** null if the server has named none. */
  readonly scopes: readonly string[] | null
}

const withToken = z.strictObject({
  credential: z.unknown(),
  access_token: z.string().nullable(),
  scopes: z.array(z.string()).nullable().default(null),
})

/** The access token is in the same secret as the credential. */
export function keptText<Credential>(
  { grant }: Pick<IntegrationDeclaration<Credential>, 'grant'>,
  { credential, accessToken, scopes }: KeptCredential<Credential>,
): string {
  return JSON.stringify(grant === undefined ? credential : { credential, access_token: accessToken, scopes })
}

/** null if this version cannot use the text. */
export function readKept<Credential>(
  { grant, credential: given, kept = given }: IntegrationDeclaration<Credential>,
  text: string,
): KeptCredential<Credential> | null {
  const value: unknown = JSON.parse(text)
  const whole = grant === undefined ? undefined : withToken.safeParse(value)
  if (whole !== undefined && !whole.success) return null
  const parsed = kept.safeParse(whole === undefined ? value : whole.data.credential)
  if (!parsed.success) return null
  const { access_token: accessToken = null, scopes = null } = whole?.data ?? {}
  return { credential: parsed.data, accessToken, scopes }
}

const tools: readonly ToolDeclaration[] = Object.values(catalog)

/** The tools of an integration that need more rights than these; none if the server named no rights. */
export function lackingTools(
  { name, grant }: Pick<IntegrationDeclaration, 'name' | 'grant'>,
  granted: readonly string[] | null,
): string[] {
  if (grant === undefined || granted === null) return []
  const own = tools.filter(({ connection }) => connection === name)
  return own.map((tool) => tool.name).filter((tool) => grant.missingScopes(tool, granted).length > 0)
}
