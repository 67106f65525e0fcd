import type { Config } from '../../shared/config.ts'
import { createAwsSecrets } from './aws-secrets.ts'
import { connectionBinding, newVersion } from './bindings.ts'
import type { Sealer } from './sealer.ts'
import { SecretGone, type SecretOwner, type Secrets } from './secrets-backend.ts'

/** With AWS, the process also reads and replaces credentials that are still in the database. */
export function createSecrets(config: Config['secrets'], sealer: Pick<Sealer, 'seal' | 'open'>): Secrets {
  const database = createDatabaseSecrets(sealer)
  if (config.backend === 'db') return database
  const aws = createAwsSecrets(config)
  return {
    ...aws,
    // Credentials of before a change of SECRETS_BACKEND are still in the row.
    replace: (owner, text, old) => (old.backend === 'db' ? database : aws).replace(owner, text, old),
    read: (owner, kept) => (kept.backend === 'db' ? database : aws).read(owner, kept),
  }
}

const bindingOf = ({ organizationId, connectionId }: SecretOwner, version: string): string =>
  connectionBinding(organizationId, connectionId, version)

function createDatabaseSecrets(sealer: Pick<Sealer, 'seal' | 'open'>): Secrets {
  const keep: Secrets['keep'] = async (owner, text) => {
    const version = newVersion()
    const sealed = await sealer.seal(bindingOf(owner, version), text)
    return { backend: 'db', credential_sealed: sealed, secret_version: version }
  }
  return {
    backend: 'db',
    keep,
    replace: keep,
    async read(owner, kept) {
      if (kept.backend !== 'db')
        throw new SecretGone('the credential is in AWS Secrets Manager, which this process does not use')
      if (kept.credential_sealed === null || kept.secret_version === null)
        throw new SecretGone('the row holds no credential')
      return sealer.open(bindingOf(owner, kept.secret_version), kept.credential_sealed)
    },
    remove: async () => {},
    // With a test value, which is not stored.
    async check() {
      const sealed = await sealer.seal('health', 'ok').catch(() => null)
      const opened = sealed === null ? null : await sealer.open('health', sealed).catch(() => null)
      const isFine = opened === 'ok'
      return {
        list_secrets: sealed === null ? 'no data key can be read: see the log' : 'ok',
        get_secret: isFine ? 'ok' : 'a sealed value cannot be opened: see the log',
      }
    },
    close: () => {},
  }
}
