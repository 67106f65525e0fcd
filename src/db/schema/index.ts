import type { Kysely } from 'kysely'
import type { AgentsTables } from './agents.ts'
import type { AuditTables } from './audit.ts'
import type { ConnectionsTables } from './connections.ts'
import type { FilesTables } from './files.ts'
import type { IdentityTables } from './identity.ts'
import type { NotificationsTables } from './notifications.ts'
import type { PlumbingTables } from './plumbing.ts'
import type { PolicyTables } from './policy.ts'
import type { RunsTables } from './runs.ts'
import type { SignInTables } from './sign-in.ts'
import type { TriggersTables } from './triggers.ts'
import type { WebhooksTables } from './webhooks.ts'
import type { WorkflowsTables } from './workflows.ts'

export interface Database
  extends
    AgentsTables,
    AuditTables,
    ConnectionsTables,
    FilesTables,
    IdentityTables,
    NotificationsTables,
    PlumbingTables,
    PolicyTables,
    RunsTables,
    SignInTables,
    TriggersTables,
    WebhooksTables,
    WorkflowsTables {}

/** A pool or an open transaction. */
export type Db = Kysely<Database>
