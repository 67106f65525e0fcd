import '../worker.ts'
