create table if not exists notes (
    id bigint generated always as identity primary key,
    text text not null check (length(text) between 1 and 200),
    at timestamptz not null default now()
);
