# fish completion for fsdpctl: what it offers is decided by the program itself (fsdpctl/cli/complete.py).

function __fsdpctl_offers_words
    set --local option (string match --regex '^--[^=]+=' -- (commandline --current-token --cut-at-cursor); or echo '')
    set --local line (commandline --current-process --cut-at-cursor | string collect)
    set --global __fsdpctl_words $option(env _FSDPCTL_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \
        _TYPER_COMPLETE_ARGS=$line fsdpctl 2>/dev/null | string match '?*')
    test (count $__fsdpctl_words) -gt 0 # else fish offers files
end

complete --command fsdpctl --no-files --condition __fsdpctl_offers_words --arguments '$__fsdpctl_words'
